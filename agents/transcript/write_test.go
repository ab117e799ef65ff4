package transcript_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/agents/transcript"
)

func TestLines(t *testing.T) {
	var out strings.Builder
	w := transcript.NewWriter(&out)
	w.Prompt("how many <b>?")
	call := w.Start("mcp__stock__get", json.RawMessage(`{"id":9007199254740993}`))
	call.Complete(false, json.RawMessage(`{"isError":true}`))
	w.Say("none")
	if err := w.Err(); err != nil {
		t.Fatal(err)
	}
	want := `{"type":"user.message","content":"how many <b>?"}
{"type":"tool.execution_start","tool_call_id":"call-1","tool_name":"mcp__stock__get","arguments":{"id":9007199254740993}}
{"type":"tool.execution_complete","tool_call_id":"call-1","tool_name":"mcp__stock__get","success":false,"tool_result":{"isError":true}}
{"type":"assistant.message","content":"none"}
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

type brokenWriter struct{ err error }

func (b brokenWriter) Write([]byte) (int, error) { return 0, b.err }

func TestFirstFailureIsKept(t *testing.T) {
	full := errors.New("disk full")
	w := transcript.NewWriter(brokenWriter{full})
	w.Prompt("one")
	w.Say("two")
	if !errors.Is(w.Err(), full) {
		t.Errorf("Err() = %v, want %v", w.Err(), full)
	}
}
