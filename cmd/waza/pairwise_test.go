package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/judgetest"
)

// pairedRun says what its skill says, where it has it.
const pairedRun = `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: command
  skill_directories: [skills]
  judge: {base_url: "ENDPOINT", model: house}
  agent: {command: sh, args: ["-c", "cat .waza/skills/*/SKILL.md || test -z $BREAK"]}
tasks: [task.yaml]
graders: [{type: prompt, name: better, config: {prompt: Which one knows the answer?, mode: pairwise}}]
-- task.yaml --
{id: t, inputs: {prompt: what?}}
-- broken.yaml --
{id: t, inputs: {prompt: what?, environment: {BREAK: "yes"}}}
-- skills/answers/SKILL.md --
---
name: answers
description: Gives the answer.
---
It is forty-two.
`

// inOrderOf answers with score where A is the run with skills, and with swapped where B is.
// Who is to judge one run by itself passes it.
func inOrderOf(score, swapped string) func(int, judgetest.Asked, http.ResponseWriter) {
	return func(_ int, asked judgetest.Asked, w http.ResponseWriter) {
		shown := asked.Body.Messages[1].Content
		a, b := strings.Index(shown, " output A"), strings.Index(shown, " output B")
		said := "1"
		switch at := strings.Index(shown, "It is forty-two."); {
		case a > 0 && at < b:
			said = score
		case a > 0:
			said = swapped
		}
		judgetest.Say(w, `{"score": `+said+`, "reason": "so it is"}`)
	}
}

// In mode pairwise a judge is shown the outputs with and without skills in both orders, and a
// trial passes unless the one without is better in both.
func TestPairwise(t *testing.T) {
	t.Parallel()
	e := judgetest.Serve(t, inOrderOf("0", "1"))
	p := judgedProject(t, pairedRun, e)
	verdict := func(run string) evidence.Verdict {
		v, err := evidence.Dir(p.path(run, "trials", "t", "1")).Verdicts()
		if err != nil {
			t.Fatal(err)
		}
		return v.Verdicts[0]
	}
	pair := func(winner, magnitude, reasoning string, consistent bool) map[string]any {
		return map[string]any{"winner": winner, "magnitude": magnitude, "reasoning": reasoning, "position_consistent": consistent}
	}
	for _, test := range []struct {
		run, withA, withB string
		result            evidence.VerdictResult
		score             float64
		want              map[string]any
	}{
		{"better", "0", "1", evidence.VerdictPass, 1, pair("skill", "much-better", "so it is", true)},
		{"little", "0.4", "0.9", evidence.VerdictPass, 1, pair("skill", "much-better", "so it is", true)},
		{"worse", "0.6", "0.4", evidence.VerdictFail, 0, pair("baseline", "slightly-better", "so it is", true)},
		{"equal", "0.5", "0.5", evidence.VerdictPass, 0.5, pair("tie", "equal", "so it is", true)},
		{"biased", "0", "0", evidence.VerdictPass, 0.5, pair("tie", "equal", "shown in one order the judge prefers baseline, in the other skill", false)},
	} {
		e.Script(inOrderOf(test.withA, test.withB))
		before := len(e.Asked())
		p.start("run", "eval.yaml", "--run-dir", test.run, "--baseline").wait(exitFailed) // the rate is no better
		if asked := len(e.Asked()) - before; asked != 3 {
			t.Errorf("%s: asked %d times, want once of the baseline and twice of the pair", test.run, asked)
		}
		for range 2 { // grading again repeats it from the record
			v := verdict(test.run)
			if diff := cmp.Diff(test.want, v.Details["pairwise"]); diff != "" || v.Result != test.result || v.Score != test.score {
				t.Errorf("%s: %s %v %q\n%s", test.run, v.Result, v.Score, v.Feedback, diff)
			}
			p.start("grade", test.run).wait(exitFailed)
		}
	}

	// Without a baseline there is nothing to compare with, and the verdict says so.
	p.start("run", "eval.yaml", "--run-dir", "alone").wait(exitOK)
	if v := verdict("alone"); !strings.Contains(v.Feedback, "no run without skills to compare with") || v.Score != 1 {
		t.Errorf("alone: %+v", v)
	}
	// One that broke is missing evidence.
	p.write("task.yaml", p.read("broken.yaml"))
	p.start("run", "eval.yaml", "--run-dir", "broken", "--baseline").wait(exitFailed)
	if v := verdict("broken"); v.Result != evidence.VerdictError || !strings.Contains(v.Feedback, "its trial ended as agent_error") {
		t.Errorf("broken: %+v", v)
	}
}
