package eval_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
)

const referring = `
-- eval.yaml --
name: refs
config: {trials_per_task: 1, timeout_seconds: 60, executor: mock}
graders:
  - {ref: graders/answer.yaml}
  - {ref: graders/answer.yaml, name: other, weight: 3, config: {contains: [b], contains_cs:}}
  - {ref: graders/honest.yaml, config: {wire: {unbacked_claims: warn}}}
tasks: [task.yaml]
-- graders/answer.yaml --
type: text
weight: 2
config: {contains: [a, b], contains_cs: [C]}
-- graders/honest.yaml --
type: mcp_compliance
name: true-to-the-wire
config: {wire: {unbacked_claims: fail, unreported_calls: fail}}
-- task.yaml --
id: t
inputs: {prompt: p, follow_up_prompts: [q]}
graders: [{ref: graders/answer.yaml, name: own}]
checkpoints:
  - {after_turn: 1, graders: [{ref: graders/answer.yaml}]}
`

// A grader may refer to a file for the keys that it omits.
func TestRef(t *testing.T) {
	unpack(t, txtar.Parse([]byte(referring)))
	e, tasks, err := eval.Load("eval.yaml", eval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	whole := json.RawMessage(`{"contains":["a","b"],"contains_cs":["C"]}`)
	want := []evidence.GraderSpec{
		{Name: "answer", Type: "text", Weight: 2, Config: whole, From: "graders/answer.yaml"},
		{Name: "other", Type: "text", Weight: 3, Config: json.RawMessage(`{"contains":["b"],"contains_cs":["C"]}`), From: "graders/answer.yaml"},
		{Name: "true-to-the-wire", Type: "mcp_compliance", Weight: 1, Config: json.RawMessage(`{"wire":{"unbacked_claims":"warn","unreported_calls":"fail"}}`), From: "graders/honest.yaml"},
		{Name: "own", Type: "text", Weight: 2, Config: whole, From: "graders/answer.yaml"},
	}
	if diff := cmp.Diff(want, tasks[0].Graders); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[:1], tasks[0].Checkpoints[0].Graders); diff != "" {
		t.Errorf("checkpoint (-want +got):\n%s", diff)
	}
	for _, file := range []string{"graders/answer.yaml", "graders/honest.yaml"} {
		if !slices.Contains(e.TextFiles, file) {
			t.Errorf("a run does not record %s: %q", file, e.TextFiles)
		}
	}
}

// Many graders that refer to one large file are refused before they take memory.
func TestRefsAreBounded(t *testing.T) {
	archive := txtar.Parse([]byte(referring))
	var graders strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&graders, "  - {ref: graders/answer.yaml, name: g%d}\n", i)
	}
	archive.Files[0].Data = []byte(strings.Replace(string(archive.Files[0].Data), "  - {ref: graders/answer.yaml}\n", graders.String(), 1))
	archive.Files[1].Data = []byte("type: text\nconfig: {contains: [" + strings.Repeat("a,", 1000) + "a]}\n")
	unpack(t, archive)
	if _, _, err := eval.Load("eval.yaml", eval.Options{}); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("got %v", err)
	}
}
