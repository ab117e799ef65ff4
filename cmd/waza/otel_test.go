package main

import (
	"bufio"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/oteltest"
)

// TestOpenTelemetry sends a run's traces to the receiver of the OpenTelemetry Collector, to one
// that cannot be reached, to one that never answers, and to a file.
func TestOpenTelemetry(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, upstreamProject)
	collector := oteltest.Start(t)
	p.env = append(p.env, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+collector.Endpoint)
	if c := p.start("run", "stock", "--otel-exporter", "otlp", "--otel-headers", "x-key=s%20t").wait(exitFailed); !strings.Contains(c.stderr.String(), "OpenTelemetry: traces sent to http://"+collector.Endpoint+"/v1/traces (semantic conventions ") {
		t.Errorf("said %s", c.stderr.String())
	}
	names := map[string]int{}
	for _, s := range collector.Await(5) {
		names[s.Name]++
	}
	if names["eval stock-eval"] != 1 || names["trial one/1"] != 1 || names["trial two/1"] != 1 || names["invoke_agent mock"] != 2 {
		t.Errorf("spans: %v", names)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	p.env = append(p.env, "OTEL_EXPORTER_OTLP_TIMEOUT=300")
	for _, endpoint := range []string{"127.0.0.1:1", silent.Addr().String()} {
		c := p.start("run", "stock", "--otel-exporter", "otlp", "--otel-endpoint", endpoint).wait(exitFailed)
		if said := c.stderr.String(); strings.Count(said, "warning: OpenTelemetry: traces were not all sent to http://"+endpoint+"/v1/traces: ") != 1 {
			t.Errorf("said %s", said)
		}
	}
	p.start("run", "stock", "--otel-exporter", "file", "--otel-file", "traces.jsonl").wait(exitFailed)
	file, err := os.Open(p.path("traces.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if line, err := bufio.NewReader(file).ReadString('\n'); err != nil || !strings.HasPrefix(line, `{"resourceSpans":`) {
		t.Errorf("%v, %.100s", err, line)
	}
}
