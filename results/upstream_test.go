package results_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/upstreamtest"
	"github.com/waza-isolate/waza/model/dialect"
)

// Upstream's reader gets an object with text for results in any format of an agent.
func TestUpstreamReadsToolResults(t *testing.T) {
	shapes := []struct{ reported, want string }{
		{`"plain"`, "plain"},
		{`""`, ""},
		{`{"content":[{"type":"text","text":"of a server"}],"isError":false}`, "of a server"},
		{`[{"type":"text","text":"one"},{"type":"image","data":"…"},{"type":"text","text":"two"}]`, "one\ntwo"},
		{`{"content":"short","detailedContent":"long","contents":[{"type":"text","text":"raw"}]}`, "short"},
		{`{"tools":["find_item"]}`, `{"tools":["find_item"]}`},
		{`{"content":{"odd":1}}`, `{"content":{"odd":1}}`},
		{`17`, "17"},
	}
	one := trial("first", 1, 1, evidence.ClassPass)
	one.Prompt = "Look around."
	var want []string
	for _, s := range shapes {
		want = append(want, s.want)
		one.Transcript = append(one.Transcript, evidence.TranscriptEvent{Type: "tool.execution_complete", ToolResult: json.RawMessage(s.reported)})
	}
	one.Transcript = append(one.Transcript, evidence.TranscriptEvent{Type: "tool.execution_complete", ToolResult: json.RawMessage("null")})
	read := upstreamtest.Read(t, written(t, run(), one)).Tasks[0].Runs[0].Transcript
	if first := read[0]; first.Type != "user.message" || *first.Content != "Look around." {
		t.Errorf("it begins with %+v", first)
	}
	var got []string
	for _, event := range read[1 : len(read)-1] {
		got = append(got, event.ToolResult.Content)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if detailed := read[5].ToolResult.DetailedContent; detailed == nil || *detailed != "long" {
		t.Errorf("detailedContent: %v", detailed)
	}
	if last := read[len(read)-1].ToolResult; last != nil {
		t.Errorf("null became %+v", last)
	}
}

// Token usage is where upstream expects it: the gateway's, or else the agent's.
func TestUpstreamReadsUsage(t *testing.T) {
	cost := 0.5
	counted := trial("first", 1, 1, evidence.ClassPass)
	counted.Gateway = true
	counted.Transcript = []evidence.TranscriptEvent{{Type: evidence.AssistantUsage, Usage: &dialect.Usage{Input: 999}}}
	counted.Models = []evidence.ModelCall{
		{Dialect: dialect.Chat, Model: "m", Outcome: evidence.ModelOK, Usage: &dialect.Usage{Input: 100, Output: 10, Cached: 40, CacheWrites: 5}, Cost: &cost},
		{Dialect: dialect.Chat, Model: "m", Outcome: evidence.ModelOK, Usage: &dialect.Usage{Input: 200, Output: 20}, Cost: &cost},
		{Dialect: dialect.Chat, Model: "n", Outcome: evidence.ModelOK}, // which reported no tokens
		{Method: "GET", Path: "models"},
	}
	reported := trial("second", 1, 1, evidence.ClassPass)
	reported.Transcript = []evidence.TranscriptEvent{{Type: evidence.AssistantUsage, Usage: &dialect.Usage{Input: 7, Output: 1}}}
	got := upstreamtest.Read(t, written(t, run(), counted, reported, trial("third", 1, 1, evidence.ClassPass)))
	first, second := got.Tasks[0].Runs[0], got.Tasks[1].Runs[0]
	u := first.Usage
	if u == nil || u.Turns != 2 || u.InputTokens != 300 || u.OutputTokens != 30 || u.CacheReadTokens != 40 || u.CacheWriteTokens != 5 || !cmp.Equal(u, first.SessionDigest.Usage) {
		t.Fatalf("of the run %+v, of its session %+v", u, first.SessionDigest.Usage)
	}
	if m := u.ModelMetrics["m"]; len(u.ModelMetrics) != 1 || m.RequestCount != 2 || m.RequestCost != 1 || m.InputTokens != 300 {
		t.Errorf("by model %+v", u.ModelMetrics)
	}
	if u := second.Usage; u == nil || u.InputTokens != 7 || u.Turns != 1 {
		t.Errorf("by the agent's account %+v", u)
	}
	if s := got.Summary.Usage; s == nil || s.InputTokens != 307 || s.Turns != 3 || got.Tasks[2].Runs[0].Usage != nil {
		t.Errorf("of all %+v, without a model %+v", s, got.Tasks[2].Runs[0].Usage)
	}
}
