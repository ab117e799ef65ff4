package main

import (
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
)

// TestFirstEvent checks that an agent which does nothing is ended early, and one that has
// started is not.
func TestFirstEvent(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  first_event_timeout_seconds: 2
  executor: command
  agent: {command: sh, args: ["-c", "eval \"$1\"", sh]}
tasks: [tasks/*.yaml]
-- tasks/1.yaml --
{id: hangs, inputs: {prompt: "echo starting >&2; sleep 50; echo late"}}
-- tasks/2.yaml --
{id: begins, inputs: {prompt: "echo x; sleep 3; echo late"}}
-- tasks/3.yaml --
{id: may, first_event_timeout_seconds: 0, inputs: {prompt: "sleep 3; echo late"}}
-- tasks/4.yaml --
{id: ends, inputs: {prompt: "true"}}
`)
	p.startLocal("--workers", "4").wait(exitFailed)
	hangs := p.runOf("hangs")
	if hangs.Outcome != evidence.ClassTimeout || hangs.Reason != evidence.ReasonNoEvent || !strings.Contains(hangs.Message, "within 2s") || hangs.DurationMS > 20_000 {
		t.Errorf("%s (%s) after %d ms: %s", hangs.Outcome, hangs.Reason, hangs.DurationMS, hangs.Message)
	}
	for _, task := range []string{"begins", "may", "ends"} {
		if run := p.runOf(task); run.Outcome != evidence.ClassPass {
			t.Errorf("%s: %s: %s", task, run.Outcome, run.Message)
		}
	}
}
