package export_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/oteltest"
	"github.com/waza-isolate/waza/internal/runtest"
	"github.com/waza-isolate/waza/report/export"
)

// conventional are the attributes of the semantic conventions that spans may have. All others
// are waza's own.
var conventional = []attribute.Key{
	semconv.ErrorTypeKey, semconv.GenAIAgentNameKey, semconv.GenAIConversationIDKey, semconv.GenAIEvaluationExplanationKey,
	semconv.GenAIEvaluationNameKey, semconv.GenAIEvaluationScoreLabelKey, semconv.GenAIEvaluationScoreValueKey,
	semconv.GenAIInputMessagesKey, semconv.GenAIOperationNameKey, semconv.GenAIOutputMessagesKey, semconv.GenAIProviderNameKey,
	semconv.GenAIRequestModelKey, semconv.GenAIToolCallArgumentsKey, semconv.GenAIToolCallIDKey, semconv.GenAIToolCallResultKey,
	semconv.GenAIToolNameKey, semconv.GenAIUsageCacheReadInputTokensKey, semconv.GenAIUsageInputTokensKey,
	semconv.GenAIUsageOutputTokensKey, semconv.JSONRPCRequestIDKey, semconv.McpMethodNameKey, semconv.NetworkTransportKey,
	semconv.RPCResponseStatusCodeKey,
}

// posts sends each request to a collector.
type posts struct {
	t  *testing.T
	to *oteltest.Collector
}

func (p posts) Write(request []byte) (int, error) {
	answer, err := http.Post("http://"+p.to.Endpoint+"/v1/traces", "application/json", bytes.NewReader(request))
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		p.t.Errorf("the collector answered %s to %.300s", answer.Status, request)
	}
	return len(request), nil
}

// TestOTLP sends all runs to the receiver of the OpenTelemetry Collector, and checks what that
// understood.
func TestOTLP(t *testing.T) {
	t.Parallel()
	if !strings.HasSuffix(semconv.SchemaURL, "/"+export.SemanticConventions) {
		t.Errorf("spans follow %s, and the test %s", export.SemanticConventions, semconv.SchemaURL)
	}
	keys := map[string]bool{}
	for _, key := range conventional {
		keys[string(key)] = true
	}
	collector := oteltest.Start(t)
	sent := 0
	for name, run := range runs(t) {
		run.Content = true
		var lines bytes.Buffer
		if err := export.OTLP(&lines, run); err != nil {
			t.Fatal(name, err)
		}
		if err := export.OTLP(posts{t, collector}, run); err != nil {
			t.Fatal(name, err)
		}
		before := sent
		sent += strings.Count(lines.String(), `"spanId"`) - strings.Count(lines.String(), `"links"`)
		spans := collector.Await(sent)[before:]
		calls, ids := 0, map[string]oteltest.Span{}
		for _, s := range spans {
			if len(s.SpanID) != 16 || len(s.TraceID) != 32 || ids[s.SpanID].SpanID != "" || s.TraceID != spans[0].TraceID {
				t.Errorf("%s: %s has the ids %s and %s", name, s.Name, s.TraceID, s.SpanID)
			}
			ids[s.SpanID] = s
			attributes := []oteltest.Attributes{s.Attributes}
			for _, e := range s.Events {
				attributes = append(attributes, e.Attributes)
			}
			for _, some := range attributes {
				for key := range some {
					if !keys[key] && !strings.HasPrefix(key, "waza.") {
						t.Errorf("%s: %s has %s, which is not in the conventions", name, s.Name, key)
					}
				}
			}
			if s.Attributes["mcp.method.name"] != "" {
				calls++
			}
		}
		for _, s := range spans {
			parent, found := ids[s.ParentSpanID]
			switch {
			case s.ParentSpanID == "":
			case !found:
				t.Errorf("%s: %s has a parent that is not there", name, s.Name)
			case s.Start < parent.Start || s.End > parent.End:
				t.Errorf("%s: %s is from %d to %d, and its parent %s from %d to %d", name, s.Name, s.Start, s.End, parent.Name, parent.Start, parent.End)
			}
		}
		for _, dir := range run.Trials {
			made, err := dir.Calls()
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			calls -= len(made)
		}
		if calls != 0 {
			t.Errorf("%s: %d more calls than were made", name, calls)
		}
	}
}

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// TestOTLPContent checks what spans say of calls and verdicts, with contents and without.
func TestOTLPContent(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	run := runtest.New(t, dir, "some")
	run.Trial("task", func(trial *runtest.Trial) {
		trial.Serve("files", runtest.Tool{Name: "read"})
		trial.Ask("files", "tools/call", map[string]any{"name": "read", "arguments": map[string]any{"path": "SECRET-A"}, "_meta": map[string]any{"traceparent": parent}},
			"result", map[string]any{"content": []any{map[string]any{"type": "text", "text": "SECRET-B"}}})
		trial.Fail("files", "read", map[string]any{"path": "SECRET-C"}, "SECRET-D")
		trial.Ask("files", "tools/call", map[string]any{"name": "read", "arguments": map[string]any{}}, "error", map[string]any{"code": -32602, "message": "SECRET-E"})
		trial.Info.Prompt, trial.Info.FinalOutput = "SECRET-F", "SECRET-G"
		trial.Grade("says", "text", `{"contains":["SECRET-H"]}`)
	})
	run.End()
	made := read(t, dir)
	for _, content := range []bool{false, true} {
		var out bytes.Buffer
		made.Content = content
		if err := export.OTLP(&out, made); err != nil {
			t.Fatal(err)
		}
		for _, secret := range strings.Split("ABCDEFGH", "") {
			if got := strings.Contains(out.String(), "SECRET-"+secret); got != content {
				t.Errorf("with contents %v, SECRET-%s is there: %v", content, secret, got)
			}
		}
		byName := map[string][]oteltest.Span{}
		var request struct {
			ResourceSpans []struct {
				ScopeSpans []struct{ Spans []oteltest.Span }
			}
		}
		if err := json.Unmarshal(out.Bytes(), &request); err != nil {
			t.Fatal(err)
		}
		for _, s := range request.ResourceSpans[0].ScopeSpans[0].Spans {
			byName[s.Name] = append(byName[s.Name], s)
		}
		calls, agent, trial := byName["tools/call read"], byName["invoke_agent script"], byName["trial task/1"]
		if len(calls) != 3 || len(agent) != 1 || len(trial) != 1 || len(byName["eval some"]) != 1 {
			t.Fatalf("%v", byName)
		}
		for i, want := range []string{"", "tool_error", "-32602"} {
			if got := calls[i].Attributes["error.type"]; got != want || (calls[i].Status.Code == 2) != (want != "") || calls[i].ParentSpanID != agent[0].SpanID {
				t.Errorf("call %d: %+v", i+1, calls[i])
			}
		}
		if links := calls[0].Links; len(links) != 1 || links[0].TraceID != parent[3:35] || links[0].SpanID != parent[36:52] || len(calls[1].Links) != 0 {
			t.Errorf("links: %+v", calls)
		}
		if e := agent[0].Events; len(e) != 1 || e[0].Name != "gen_ai.evaluation.result" || e[0].Attributes["gen_ai.evaluation.name"] != "says" || e[0].Attributes["gen_ai.evaluation.score.label"] != "fail" {
			t.Errorf("events: %+v", e)
		}
		if trial[0].Attributes["waza.trial.outcome"] != string(evidence.ClassFail) || trial[0].Status.Code != 2 {
			t.Errorf("%+v", trial[0])
		}
	}
}
