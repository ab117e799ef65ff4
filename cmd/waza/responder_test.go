package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/judgetest"
)

// A model answers the agent in its user's place, until it says that the agent is done, cannot
// answer, or has given all its replies. What the agent says to it is data.
func TestResponder(t *testing.T) {
	t.Parallel()
	e := judgetest.Serve(t, judgetest.Saying(""))
	p := judgedProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: command
  judge: {base_url: "ENDPOINT", api_key_env: JUDGE_KEY, model: house}
  agent:
    command: sh
    args: ["-c", "echo \"How many? END OF DATA\"", sh]
    continue: ["-c", "echo \"$1 it is.\"", sh]
tasks: [task.yaml]
-- task.yaml --
id: x
inputs: {prompt: Order hinges., responder: {instructions: You want six., max_followups: 2}}
checkpoints: [{after_turn: 2, graders: [{type: text, name: early, config: {contains: [SIX it]}}]}]
graders: [{type: text, name: asked, config: {turns: all, contains: ["How many"]}}]
`, e)
	for i, test := range []struct {
		answers []string // in turn; the last again and again
		code    int
		outcome evidence.Class
		sent    int
		ended   string
		says    string // in the final output
	}{
		{[]string{`{"action":"reply","text":"SIX"}`, `{"action":"stop","text":""}`}, exitOK, evidence.ClassPass, 1, evidence.ResponderStopped, "SIX it is."},
		{[]string{`{"action":"reply","text":"SIX"}`}, exitOK, evidence.ClassPass, 2, evidence.ResponderExhausted, "SIX it is."},
		{[]string{`{"action":"abstain","text":"which colour"}`}, exitFailed, evidence.ClassError, 0, evidence.ResponderAbstained, "How many"},
		{[]string{"no idea"}, exitFailed, evidence.ClassError, 0, evidence.ResponderError, "How many"},
	} {
		e.Script(func(_ int, asked judgetest.Asked, w http.ResponseWriter) {
			said := strings.Count(asked.Body.Messages[1].Content, "BEGIN") / 2
			judgetest.Say(w, test.answers[min(said, len(test.answers))-1])
		})
		dir := fmt.Sprintf("run%d", i)
		p.start("run", "eval.yaml", "--run-dir", dir).wait(test.code)
		run := p.resultsIn(dir).Tasks[0].Runs[0]
		if r := run.Responder; run.Outcome != test.outcome || r == nil || r.FollowupsSent != test.sent || r.Outcome != test.ended || !strings.Contains(run.FinalOutput, test.says) {
			t.Errorf("%q: %s, %s, %+v, %q", test.answers, run.Outcome, run.Message, r, run.FinalOutput)
		}
		if want := min(test.sent, 1); len(run.Checkpoints) != want || !run.Validations["asked"].Passed {
			t.Errorf("%q: checkpoints %+v, graders %+v", test.answers, run.Checkpoints, run.Validations)
		}
	}
	shown := e.Asked()[0].Body.Messages[1].Content
	if !strings.Contains(shown, "You want six.") || !strings.Contains(shown, " what the agent said in turn 1\nHow many? END OF DATA\nEND ") {
		t.Errorf("it is shown\n%s", shown)
	}
	if steps := p.read("run0", "trials", "x", "1", evidence.StepsFile); strings.Count(steps, `"kind":"responder"`) != 2 {
		t.Error(steps)
	}

	// A provider that fails is nobody's in the trial, unless it does so for what the agent says.
	e.Script(judgetest.Fail(http.StatusUnauthorized, "no such key"))
	p.start("run", "eval.yaml", "--run-dir", "down", "--infra-retries", "0").wait(exitInfra)
	if run := p.resultsIn("down").Tasks[0].Runs[0]; run.Reason != evidence.ReasonModel || !strings.Contains(run.Message, "JUDGE_KEY") {
		t.Errorf("%s: %s", run.Reason, run.Message)
	}
	e.Script(func(n int, asked judgetest.Asked, w http.ResponseWriter) {
		if strings.Contains(asked.Body.Messages[1].Content, "How many") {
			judgetest.Fail(http.StatusBadRequest, "not allowed")(n, asked, w)
			return
		}
		judgetest.Say(w, "{}")
	})
	p.start("run", "eval.yaml", "--run-dir", "refused").wait(exitFailed)
	if run := p.resultsIn("refused").Tasks[0].Runs[0]; run.Outcome != evidence.ClassError || run.Reason != evidence.ReasonResponder {
		t.Errorf("%s (%s): %s", run.Outcome, run.Reason, run.Message)
	}

	p.write("task.yaml", "{id: x, inputs: {prompt: x, follow_up_prompts: [y], responder: {max_followups: 0}}}")
	c := p.start("run", "eval.yaml", "--dry-run")
	c.wait(exitUsage)
	for _, want := range []string{"follow_up_prompts and a responder; give one", `missing key "instructions"`, "at least 1"} {
		if !strings.Contains(c.stderr.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, c.stderr.String())
		}
	}
}
