package main

import (
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/results"
)

// checkpointed is an eval whose agent goes on, with a task whose checkpoints see its state at
// two turns, and one that the first of them stops.
const checkpointed = goesOn + `-- tasks/1.yaml --
id: goes-on
inputs: {prompt: one, follow_up_prompts: [two, three]}
checkpoints:
  - after_turn: 1
    on_failure: stop
    graders:
      - {type: text, name: output, config: {contains: ["first: one"], not_contains: [then]}}
      - {type: file, name: file, config: {content_patterns: [{path: said, must_match: ["^one$"]}]}}
      - {type: program, name: program, config: {command: grep, args: [-q, first]}}
  - after_turn: 2
    graders: [{type: text, name: output, config: {contains: [three]}}]
graders:
  - {type: text, name: output, config: {contains: [one and then two and then three]}}
-- tasks/2.yaml --
id: stops
inputs: {prompt: one, follow_up_prompts: [two, three]}
checkpoints:
  - {after_turn: 2, on_failure: stop, graders: [{type: text, name: output, config: {contains: [three]}}]}
graders: [{type: text, name: end, config: {contains: [one]}}]
`

// checkCheckpoints holds what the run of checkpointed came to.
func checkCheckpoints(t *testing.T, p *project) {
	t.Helper()
	tasks := p.results().Tasks
	on, stopped := tasks[0].Runs[0], tasks[1].Runs[0]
	if on.Outcome != evidence.ClassPass || len(on.Checkpoints) != 2 {
		t.Fatalf("%s: %s, %+v", on.Outcome, on.Message, on.Checkpoints)
	}
	first, second := on.Checkpoints[0], on.Checkpoints[1]
	if first.AfterTurn != 1 || first.Status != results.StatusPassed || len(first.Validations) != 3 || first.Stopped {
		t.Errorf("the first checkpoint is %+v", first)
	}
	if second.AfterTurn != 2 || second.Status != results.StatusFailed || second.Validations["output"].Passed || second.Stopped {
		t.Errorf("the second checkpoint is %+v", second)
	}
	if stopped.Outcome != evidence.ClassFail || strings.Contains(stopped.FinalOutput, "three") || len(stopped.Checkpoints) != 1 || !stopped.Checkpoints[0].Stopped || !stopped.Validations["end"].Passed {
		t.Errorf("%s: %s, %+v", stopped.Outcome, stopped.FinalOutput, stopped.Checkpoints)
	}
	if want := "the conversation ended at the checkpoint after turn 2: failed: output"; stopped.Message != want {
		t.Errorf("it says %q", stopped.Message)
	}
}

// Checkpoints see the trial as it stands after their turn. One that fails stops the
// conversation where it says so, and else changes nothing.
func TestCheckpoints(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, checkpointed)
	p.startLocal().wait(exitFailed)
	checkCheckpoints(t, p)
	p.start("grade", "run").wait(exitFailed)
	checkCheckpoints(t, p)
	p.start("run", "eval.yaml", "--executor", "mock", "--run-dir", "mock", "--task", "stops").wait(exitFailed)
	if said := p.read("mock", "results.json"); !strings.Contains(said, `"final_output": "Mock response for: one\nMock response for: two"`) {
		t.Error(said)
	}
	for wrong, want := range map[string]string{
		"after_turn: 4":                  "checkpoints[0].after_turn is 4, and the conversation has 3 turn(s)",
		"after_turn: 2, on_failure: bad": "must be continue or stop",
		"after_turn: 1":                  "there is a checkpoint after turn 1 already",
		"after_turn: 0":                  "at least 1",
	} {
		p.write("tasks/2.yaml", strings.Replace(`{id: x, inputs: {prompt: x, follow_up_prompts: [x, y]}, checkpoints: [{WRONG, graders: []}, {after_turn: 1, graders: []}]}`, "WRONG", wrong, 1))
		c := p.start("run", "eval.yaml", "--dry-run")
		c.wait(exitUsage)
		if !strings.Contains(c.stderr.String(), want) {
			t.Errorf("%s: it does not say %q:\n%s", wrong, want, c.stderr.String())
		}
	}
}

// In containers an agent of somebody else's is graded between its runs, too.
func TestCheckpointsInContainers(t *testing.T) {
	t.Parallel()
	p := newProject(t, strings.Replace(checkpointed, "  executor: command\n", "  executor: command\n  isolation: {agent: {image: "+debian+"}}\n", 1))
	p.start("run", "eval.yaml", "--isolate", "--run-dir", "run").wait(exitFailed)
	checkCheckpoints(t, p)
}
