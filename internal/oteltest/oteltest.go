// Package oteltest runs the OTLP receiver of the OpenTelemetry Collector to test exported
// spans. The receiver is a program in a separate module, so that nothing else depends on
// the Collector.
package oteltest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Span is a span as parsed by the receiver.
type Span struct {
	TraceID, SpanID, ParentSpanID, Name string
	Kind                                int
	Start                               int64 `json:"startTimeUnixNano,string"`
	End                                 int64 `json:"endTimeUnixNano,string"`
	Attributes                          Attributes
	Events                              []struct {
		Name       string
		Attributes Attributes
	}
	Links  []struct{ TraceID, SpanID string }
	Status struct {
		Code    int
		Message string
	}
}

// Attributes maps keys to values as text.
type Attributes map[string]string

// UnmarshalJSON decodes attributes in OTLP's JSON encoding.
func (a *Attributes) UnmarshalJSON(data []byte) error {
	var all []struct {
		Key   string
		Value map[string]any
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	*a = Attributes{}
	for _, one := range all {
		for _, value := range one.Value {
			switch value := value.(type) {
			case string:
				(*a)[one.Key] = value
			case float64:
				(*a)[one.Key] = strconv.FormatFloat(value, 'g', -1, 64)
			case bool:
				(*a)[one.Key] = strconv.FormatBool(value)
			}
		}
	}
	return nil
}

// Collector is a running receiver.
type Collector struct {
	Endpoint string // HOST:PORT

	t     testing.TB
	mu    sync.Mutex
	spans []Span // guarded by mu
	bad   error  // guarded by mu
}

// Start builds and starts a receiver, which ends with the test. Without the Collector's
// modules it skips the test, or fails it with WAZA_REQUIRE_DOCKER=1.
func Start(t testing.TB) *Collector {
	t.Helper()
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "collector")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = filepath.Join(strings.TrimSpace(string(module)), "internal", "oteltest", "collector")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		if os.Getenv("WAZA_REQUIRE_DOCKER") != "" {
			t.Fatalf("the collector cannot be built: %v\n%s", err, said)
		}
		t.Skipf("the collector cannot be built: %v\n%s", err, said)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Collector{Endpoint: free.Addr().String(), t: t}
	_ = free.Close()
	var stderr bytes.Buffer
	receiver := exec.Command(program, c.Endpoint)
	receiver.Stderr = &stderr
	stdout, err := receiver.StdoutPipe()
	if err == nil {
		err = receiver.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.read(bufio.NewReader(stdout))
		_ = receiver.Wait()
	}()
	t.Cleanup(func() { _ = receiver.Process.Kill(); <-ended })
	for range 200 {
		conn, err := net.Dial("tcp", c.Endpoint)
		if err == nil {
			_ = conn.Close()
			return c
		}
		select {
		case <-ended:
			t.Fatalf("the collector ended: %s", &stderr)
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatal("the collector does not listen")
	return nil
}

// read reads requests, one per line.
func (c *Collector) read(lines *bufio.Reader) {
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var request struct {
			ResourceSpans []struct {
				ScopeSpans []struct{ Spans []Span }
			}
		}
		err = json.Unmarshal(line, &request)
		c.mu.Lock()
		if err != nil {
			c.bad = err
		}
		for _, r := range request.ResourceSpans {
			for _, s := range r.ScopeSpans {
				c.spans = append(c.spans, s.Spans...)
			}
		}
		c.mu.Unlock()
	}
}

// Await waits for at least n spans and returns all of them.
func (c *Collector) Await(n int) []Span {
	c.t.Helper()
	for range 200 {
		c.mu.Lock()
		spans, bad := c.spans, c.bad
		c.mu.Unlock()
		if bad != nil {
			c.t.Fatal(bad)
		}
		if len(spans) >= n {
			return spans
		}
		time.Sleep(50 * time.Millisecond)
	}
	c.t.Fatalf("the collector has no %d spans", n)
	return nil
}
