package main

import (
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/judgetest"
	"github.com/waza-isolate/waza/results"
)

// checkpointed is an eval with a task that has checkpoints after two turns, and one that its
// first checkpoint stops.
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
    graders: [{type: text, name: output, config: {contains: [three]}}, {type: text, name: only, config: {not_contains: [first]}}]
graders:
  - {type: text, name: output, config: {contains: [one and then two and then three]}}
-- tasks/2.yaml --
id: stops
inputs: {prompt: one, follow_up_prompts: [two, three]}
checkpoints:
  - {after_turn: 2, on_failure: stop, graders: [{type: text, name: output, config: {contains: [three]}}]}
graders: [{type: text, name: end, config: {contains: [one]}}]
`

// checkCheckpoints checks the results of checkpointed.
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
	if second.AfterTurn != 2 || second.Status != results.StatusFailed || second.Validations["output"].Passed || !second.Validations["only"].Passed || second.Stopped {
		t.Errorf("the second checkpoint is %+v", second)
	}
	if stopped.Outcome != evidence.ClassFail || strings.Contains(stopped.FinalOutput, "three") || len(stopped.Checkpoints) != 1 || !stopped.Checkpoints[0].Stopped || !stopped.Validations["end"].Passed {
		t.Errorf("%s: %s, %+v", stopped.Outcome, stopped.FinalOutput, stopped.Checkpoints)
	}
	if least := p.results().Summary.MinScore; least != 0 {
		t.Errorf("the task that a checkpoint failed has the score %v", least)
	}
	if want := "the conversation ended at the checkpoint after turn 2: failed: output"; stopped.Message != want {
		t.Errorf("it says %q", stopped.Message)
	}
}

// TestCheckpoints checks that checkpoints see the state after their turn, and that one with
// stop ends the conversation if it fails.
func TestCheckpoints(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, checkpointed)
	p.startLocal().wait(exitFailed)
	checkCheckpoints(t, p)
	p.start("grade", "run").wait(exitFailed)
	checkCheckpoints(t, p)
	p.start("run", "eval.yaml", "--executor", "mock", "--run-dir", "mock", "--task", "stops").wait(exitFailed)
	if said := p.read("mock", "results.json"); !strings.Contains(said, `"final_output": "Mock response for: two"`) {
		t.Error(said)
	}
	for wrong, want := range map[string]string{
		"after_turn: 4":                  "checkpoints[0].after_turn is 4, and the conversation has 3 turns",
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

// TestCheckpointIsJudgedLater checks that a judge can be asked later about the state at a
// checkpoint.
func TestCheckpointIsJudgedLater(t *testing.T) {
	t.Parallel()
	e := judgetest.Serve(t, judgetest.Saying("no idea"))
	p := judgedProject(t, strings.Replace(goesOn, "  agent:\n", `  judge: {base_url: "ENDPOINT", api_key_env: JUDGE_KEY, model: house}
  agent:
`, 1)+`-- tasks/1.yaml --
id: goes-on
inputs: {prompt: one, follow_up_prompts: [two]}
checkpoints: [{after_turn: 1, graders: [{type: prompt, name: polite, config: {prompt: Was it polite?}}]}]
graders: [{type: text, name: output, config: {contains: [one and then two]}}]
`, e)
	p.startLocal().wait(exitOK)
	polite := func() results.Validation { return p.results().Tasks[0].Runs[0].Checkpoints[0].Validations["polite"] }
	if v := polite(); v.Result != evidence.VerdictError {
		t.Fatalf("without a readable answer: %+v", v)
	}
	e.Script(judgetest.Saying(judgement))
	judge := []string{"--judge-url", e.URL, "--judge-key-env", "JUDGE_KEY"}
	for _, step := range []struct {
		args []string
		said string
		all  int // answers on record
	}{
		{nil, "", 2}, // at the checkpoint, and once more when the trial had ended
		{append([]string{"--judge"}, judge...), "questions put to the judge: 1\n", 3},
		{append([]string{"--judge"}, judge...), "questions put to the judge: 0\n", 3},
		{append([]string{"--judge-again"}, judge...), "questions put to the judge: 1\n", 4},
		{nil, "", 4},
	} {
		c := p.start(append([]string{"grade", "run"}, step.args...)...).wait(exitOK)
		if c.stderr.String() != step.said {
			t.Errorf("%q: stderr %q, want %q", step.args, c.stderr.String(), step.said)
		}
		want := evidence.VerdictPass
		if step.all == 2 {
			want = evidence.VerdictError
		}
		if v := polite(); v.Result != want {
			t.Errorf("%q: %+v", step.args, v)
		}
		if judge := p.results().Summary.Judge; judge == nil || judge.Answers != step.all {
			t.Errorf("%q: the judge took %+v, want %d answers", step.args, judge, step.all)
		}
	}
	for _, asked := range e.Asked() {
		if shown := asked.Body.Messages[1].Content; !strings.Contains(shown, "first: one") || strings.Contains(shown, "then two") {
			t.Errorf("the judge is shown\n%s", shown)
		}
	}
	if left := undigested(t, p); len(left) > 0 {
		t.Errorf("without a digest: %q", left)
	}
}

// TestCheckpointsInContainers checks checkpoints of a custom agent in containers.
func TestCheckpointsInContainers(t *testing.T) {
	t.Parallel()
	p := newProject(t, strings.Replace(checkpointed, "  executor: command\n", "  executor: command\n  isolation: {network: airtight, agent: {image: "+debian+"}}\n", 1))
	p.start("run", "eval.yaml", "--isolate", "--run-dir", "run").wait(exitFailed)
	checkCheckpoints(t, p)
}
