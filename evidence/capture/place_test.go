package capture_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
)

// The position of each call in the transcript, which is never guessed.
func TestPlaces(t *testing.T) {
	call := func(server, tool, arguments string) evidence.Call {
		return evidence.Call{Server: server, Tool: tool, Arguments: json.RawMessage(arguments)}
	}
	reported := func(tool, arguments string) evidence.TranscriptEvent {
		return evidence.TranscriptEvent{Type: "tool.execution_start", ToolName: tool, Arguments: json.RawMessage(arguments)}
	}
	for _, test := range []struct {
		name       string
		calls      []evidence.Call
		transcript []evidence.TranscriptEvent
		want       []int // of the calls
	}{
		{"by server and arguments", []evidence.Call{call("a", "x", `{"n":1}`), call("b", "x", `{"n":1}`)},
			[]evidence.TranscriptEvent{reported("mcp__b__x", `{"n":1.0}`), reported("read", `{}`), reported("a-x", `{"n":1}`)}, []int{3, 1}},
		{"other arguments", []evidence.Call{call("a", "x", `{"n":1}`)}, []evidence.TranscriptEvent{reported("a-x", `{"n":2}`)}, []int{0}},
		{"no arguments are none", []evidence.Call{call("a", "x", `{}`)}, []evidence.TranscriptEvent{reported("a-x", ``)}, []int{1}},
		{"alike, in their order", []evidence.Call{call("a", "x", `{}`), call("a", "x", `{}`)},
			[]evidence.TranscriptEvent{reported("a-x", `{}`), reported("read", `{}`), reported("x", `{}`)}, []int{1, 3}},
		{"alike, and one too few", []evidence.Call{call("a", "x", `{}`), call("a", "x", `{}`)}, []evidence.TranscriptEvent{reported("a-x", `{}`)}, []int{0, 0}},
		{"alike, and one too many", []evidence.Call{call("a", "x", `{}`)}, []evidence.TranscriptEvent{reported("a-x", `{}`), reported("x", `{}`)}, []int{0}},
		{"a name of two servers", []evidence.Call{call("a", "x", `{}`), call("b", "x", `{}`)},
			[]evidence.TranscriptEvent{reported("x", `{}`), reported("a-x", `{}`)}, []int{0, 0}},
		{"one that reads two ways", []evidence.Call{call("a", "b-x", `{}`), call("a-b", "x", `{}`)}, []evidence.TranscriptEvent{reported("a-b-x", `{}`)}, []int{0, 0}},
	} {
		var got []int
		tools := capture.Tools([]string{"a", "b", "a-b"}, capture.Result{Calls: test.calls})
		for _, use := range capture.Pair(tools, test.calls, test.transcript).Uses() {
			if use.Call != nil {
				got = append(got, use.Reported)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
