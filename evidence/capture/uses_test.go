package capture_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
)

func jsonValid(raw []byte) bool { return json.Valid(raw) }

func TestUses(t *testing.T) {
	called := func(server, tool, arguments string) evidence.Call {
		return evidence.Call{Server: server, Tool: tool, Arguments: json.RawMessage(arguments), Outcome: evidence.OutcomeOK}
	}
	reported := func(tool, arguments string) evidence.TranscriptEvent {
		return evidence.TranscriptEvent{Type: "tool.execution_start", ToolName: tool, ToolCallID: tool, Arguments: json.RawMessage(arguments)}
	}
	for _, test := range []struct {
		name       string
		calls      []evidence.Call
		transcript []evidence.TranscriptEvent
		want       []string
	}{
		{"a call that nothing tells", []evidence.Call{called("git-hub", "get", `{}`)}, nil, []string{"mcp:git-hub get"}},
		{"told with a prefix", []evidence.Call{called("git-hub", "get", `{}`)}, []evidence.TranscriptEvent{reported("mcp__git-hub__get", `{}`)}, []string{"mcp:git-hub get"}},
		{"told with - written as _", []evidence.Call{called("git-hub", "get", `{}`)}, []evidence.TranscriptEvent{reported("git_hub__get", `{}`)}, []string{"mcp:git-hub get"}},
		{"a claim of no call", nil, []evidence.TranscriptEvent{reported("mcp__git-hub__get", `{}`)}, nil},
		{"told by its bare name", []evidence.Call{called("git-hub", "get", `{"n":1}`)}, []evidence.TranscriptEvent{reported("get", `{"n":1.0}`)}, []string{"mcp:git-hub get"}},
		{"a builtin tool of the same name", []evidence.Call{called("git-hub", "get", `{"n":1}`)}, []evidence.TranscriptEvent{reported("get", `{"n":2}`)}, []string{"mcp:git-hub get", "builtin get"}},
		{"both told", []evidence.Call{called("git-hub", "get", `{}`)}, []evidence.TranscriptEvent{reported("get", `{}`), reported("git-hub-get", `{}`)}, []string{"builtin get", "mcp:git-hub get"}},
		{"calls among builtin tools", []evidence.Call{called("git-hub", "get", `{"n":1}`), called("git-hub", "get", `{"n":2}`)},
			[]evidence.TranscriptEvent{reported("read", `{}`), reported("git-hub-get", `{"n":1}`), reported("edit", `{}`), reported("git-hub-get", `{"n":2}`), reported("run", `{}`)},
			[]string{"builtin read", "mcp:git-hub get", "builtin edit", "mcp:git-hub get", "builtin run"}},
		{"told with other arguments", []evidence.Call{called("git-hub", "get", `{"n":1}`)},
			[]evidence.TranscriptEvent{reported("read", `{}`), reported("git-hub-get", `{"n":2}`), reported("edit", `{}`)},
			[]string{"builtin read", "mcp:git-hub get", "builtin edit"}},
		{"told later than a later call", []evidence.Call{called("git-hub", "get", `{"n":1}`), called("git-hub", "put", `{}`)},
			[]evidence.TranscriptEvent{reported("read", `{}`), reported("git-hub-put", `{}`), reported("edit", `{}`), reported("git-hub-get", `{"n":1}`)},
			[]string{"builtin read", "builtin edit", "mcp:git-hub get", "mcp:git-hub put"}},
		{"a call that is not told, between two that are", []evidence.Call{called("git-hub", "get", `{"n":1}`), called("git-hub", "put", `{}`), called("git-hub", "get", `{"n":2}`)},
			[]evidence.TranscriptEvent{reported("git-hub-get", `{"n":1}`), reported("read", `{}`), reported("git-hub-get", `{"n":2}`)},
			[]string{"mcp:git-hub get", "mcp:git-hub put", "builtin read", "mcp:git-hub get"}},
		{"a server that is not declared", nil, []evidence.TranscriptEvent{reported("mcp__other__get", `{}`)}, []string{"builtin mcp__other__get"}},
		{"a skill", nil, []evidence.TranscriptEvent{reported("skill", `{"skill":"x"}`)}, []string{"skill skill"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, use := range capture.Pair(capture.Tools([]string{"git-hub"}, capture.Result{Calls: test.calls}), test.calls, test.transcript).Uses() {
				got = append(got, fmt.Sprintf("%s %s", use.Source, use.Tool))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUseEnds(t *testing.T) {
	yes := true
	uses := capture.Pair(nil, nil, []evidence.TranscriptEvent{
		{Type: "tool.execution_complete", ToolCallID: "none"},
		{Type: "tool.execution_start", ToolCallID: "1", ToolName: "a"},
		{Type: "tool.execution_start", ToolCallID: "2", ToolName: "b"},
		{Type: "tool.execution_complete", ToolCallID: "1", Success: &yes, ToolResult: json.RawMessage(`"done"`)},
	}).Uses()
	want := []capture.Use{
		{Source: "builtin", ID: "1", Reported: 1, Tool: "a", Result: evidence.NewResult(json.RawMessage(`"done"`)), OK: true},
		{Source: "builtin", ID: "2", Reported: 2, Tool: "b"},
	}
	if diff := cmp.Diff(want, uses); diff != "" {
		t.Error(diff)
	}
}
