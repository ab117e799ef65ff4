package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
	"golang.org/x/net/http/httpguts"

	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/internal/web"
	"github.com/waza-isolate/waza/report/export"
	"github.com/waza-isolate/waza/runner"
)

// Timeouts of a single request to a collector, unless OTEL_EXPORTER_OTLP_TIMEOUT sets it, and of all requests
// of a run together.
const (
	otlpTimeout    = 10 * time.Second
	otlpTimeoutAll = time.Minute
)

// tracing is the destination of a run's spans. The zero value exports nothing.
type tracing struct {
	file     string   // OTLP JSON file, for the exporter file
	endpoint *url.URL // collector, for the exporter otlp
	headers  http.Header
	timeout  time.Duration
	content  bool // include prompts, answers, arguments and results
}

func otelFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "otel-exporter", Usage: "Export the run as OpenTelemetry traces when it has ended, by `EXPORTER`: otlp (to a collector, over HTTP) or file", DefaultText: "none"},
		&cli.StringFlag{Name: "otel-endpoint", Usage: "Send traces to `URL`, or HOST:PORT", DefaultText: "OTEL_EXPORTER_OTLP_ENDPOINT, or localhost:4318"},
		&cli.StringFlag{Name: "otel-headers", Usage: "Send `HEADERS` to the collector, as KEY=VALUE,...", DefaultText: "OTEL_EXPORTER_OTLP_HEADERS"},
		&cli.StringFlag{Name: "otel-file", Usage: "Write traces to `FILE`, as OTLP JSON"},
		&cli.BoolFlag{Name: "otel-include-payloads", Usage: "Export prompts, answers, arguments and results too"},
	}
}

// variables looks up an environment variable.
type variables func(name string) (value string, found bool)

// readTracing reads the flags of a command and OpenTelemetry's variables.
func readTracing(c *cli.Command, env variables) (t tracing, err error) {
	t.content, t.file = c.Bool("otel-include-payloads") || env.capturesContent(), c.String("otel-file")
	exporter := c.String("otel-exporter")
	for _, flag := range otelFlags()[1:] {
		name := flag.Names()[0]
		if c.IsSet(name) && (exporter == "" || (exporter == "file") != (name == "otel-file") && name != "otel-include-payloads") {
			return t, usage("--%s needs --otel-exporter %s", name, map[bool]string{true: "file", false: "otlp"}[name == "otel-file"])
		}
	}
	switch exporter {
	case "":
		return tracing{}, nil
	case "file":
		if t.file == "" {
			return t, usage("--otel-exporter file needs --otel-file FILE")
		}
		return t, nil
	case "otlp":
		err = t.readCollector(c, env)
		return t, err
	}
	return t, usage("--otel-exporter %q: must be otlp or file", exporter)
}

// capturesContent reports whether the variables ask for message contents in spans.
func (env variables) capturesContent() bool {
	value, _ := env("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")
	switch strings.ToLower(value) {
	case "true", "span_only", "span_and_event":
		return true
	}
	return false
}

// readCollector reads the collector's endpoint, headers and timeout.
func (t *tracing) readCollector(c *cli.Command, env variables) (err error) {
	// Variables for traces override those for all signals.
	variable := func(name string) (value, from string) {
		for _, from := range []string{"OTEL_EXPORTER_OTLP_TRACES_" + name, "OTEL_EXPORTER_OTLP_" + name} {
			if value, _ := env(from); strings.TrimSpace(value) != "" {
				return strings.TrimSpace(value), from
			}
		}
		return "", ""
	}
	if protocol, from := variable("PROTOCOL"); protocol == "grpc" {
		return usage("%s is grpc, and traces are sent over HTTP: unset it, and name the collector's HTTP endpoint, which listens on port 4318 by default", from)
	}
	given, from := c.String("otel-endpoint"), "--otel-endpoint"
	if given == "" {
		given, from = variable("ENDPOINT")
	}
	if given == "" {
		given = "localhost:4318"
	}
	if !strings.Contains(given, "://") {
		given = "http://" + given
	}
	t.endpoint, err = url.Parse(given)
	if err != nil || t.endpoint.Scheme != "http" && t.endpoint.Scheme != "https" || t.endpoint.Hostname() == "" {
		return usage("%s must be a URL, such as http://localhost:4318", cmp.Or(from, "the endpoint"))
	}
	if from == "OTEL_EXPORTER_OTLP_ENDPOINT" || from != "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" && strings.Trim(t.endpoint.Path, "/") == "" {
		t.endpoint = t.endpoint.JoinPath("v1/traces")
	}
	t.timeout = otlpTimeout
	if ms, from := variable("TIMEOUT"); ms != "" {
		n, err := strconv.Atoi(ms)
		if err != nil || n < 1 || n > 600_000 {
			return usage("%s must be from 1 to 600000 milliseconds", from)
		}
		t.timeout = time.Duration(n) * time.Millisecond
	}
	headers, from := c.String("otel-headers"), "--otel-headers"
	if headers == "" {
		headers, from = variable("HEADERS")
	}
	if t.headers, err = readHeaders(headers); err != nil {
		return usage("%s: %w", from, err)
	}
	return nil
}

// readHeaders parses headers in the format of OpenTelemetry's variables: KEY=VALUE, separated
// by commas, with percent-encoded values. Errors do not quote values.
func readHeaders(all string) (http.Header, error) {
	headers := http.Header{}
	for pair := range strings.SplitSeq(all, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, found := strings.Cut(pair, "=")
		key = strings.TrimSpace(key)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !found || err != nil || !httpguts.ValidHeaderFieldName(key) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, errors.New("must be KEY=VALUE,..., with values in percent-encoding")
		}
		headers.Add(key, value)
	}
	return headers, nil
}

// trace exports the spans of a completed run. Failing to reach the collector is only a warning,
// since it does not affect the run.
func (o runOutput) trace(out runner.Outcome) error {
	t := o.exports.tracing
	if t.file == "" && t.endpoint == nil {
		return nil
	}
	trials, err := runner.Trials(out.Dir)
	if err != nil {
		return err
	}
	run := export.Run{Run: out.View(), Trials: trials, Content: t.content}
	if t.endpoint == nil {
		file := withLabel(t.file, o.label)
		if err := writeNamed(file, func(w io.Writer) error { return export.OTLP(w, run) }); err != nil {
			return fmt.Errorf("--otel-file: %w", err)
		}
		fmt.Fprintf(o.stderr, "OpenTelemetry: traces are in %s (semantic conventions %s)\n", file, export.SemanticConventions)
		return nil
	}
	ctx, stop := context.WithTimeout(context.Background(), otlpTimeoutAll)
	defer stop()
	at := (&url.URL{Scheme: t.endpoint.Scheme, Host: t.endpoint.Host, Path: t.endpoint.Path}).String() // without credentials and query
	if err := export.OTLP(&collector{ctx, t}, run); err != nil {
		var wrong *url.Error
		if errors.As(err, &wrong) {
			err = wrong.Err // the URL may contain credentials
		}
		o.warn(fmt.Errorf("OpenTelemetry: traces were not all sent to %s: %w", at, err))
		return nil
	}
	fmt.Fprintf(o.stderr, "OpenTelemetry: traces sent to %s (semantic conventions %s)\n", at, export.SemanticConventions)
	return nil
}

// collector is a writer that sends each call of Write as a request to a collector.
type collector struct {
	ctx context.Context
	tracing
}

// maxAnswer is the maximum number of bytes read of a collector's response.
const maxAnswer = 64 << 10

// Write sends a request. It returns an error unless the collector accepts all spans.
func (c *collector) Write(body []byte) (int, error) {
	ctx, stop := context.WithTimeout(c.ctx, c.timeout)
	defer stop()
	answer, said, err := web.Post(ctx, nil, c.endpoint.String(), c.headers.Clone(), body, maxAnswer)
	if answer != nil && answer.StatusCode/100 != 2 {
		return 0, fmt.Errorf("the collector answered %s", text.Inert(answer.Status))
	}
	if err != nil {
		return 0, err
	}
	var partly struct {
		PartialSuccess struct {
			RejectedSpans json.Number `json:"rejectedSpans"`
			ErrorMessage  string      `json:"errorMessage"`
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(said, &partly) == nil {
		if n, _ := partly.PartialSuccess.RejectedSpans.Int64(); n > 0 {
			return 0, fmt.Errorf("the collector rejected %d spans: %s", n, text.Line(partly.PartialSuccess.ErrorMessage, 200))
		}
	}
	return len(body), nil
}
