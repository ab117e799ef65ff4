package view

import (
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/results"
)

func TestEnds(t *testing.T) {
	t.Parallel()
	ended := func(class evidence.Class, reason evidence.Reason, earlier ...evidence.Class) results.RunResult {
		r := results.RunResult{Outcome: class, Reason: reason}
		for _, class := range earlier {
			r.Earlier = append(r.Earlier, results.Attempt{Outcome: class})
		}
		return r
	}
	pass, fail := ended(evidence.ClassPass, ""), ended(evidence.ClassFail, evidence.ReasonGraders)
	attacked, both := pass, fail
	attacked.Attack = &results.Attack{Result: evidence.AttackSucceeded}
	both.Attack = attacked.Attack
	for want, runs := range map[string][]results.RunResult{
		"no outcome":                             nil,
		"pass":                                   {pass, pass, pass},
		"pass, 2 with no outcome":                {pass},
		"fail":                                   {fail, pass, fail},
		"attack succeeded":                       {pass, attacked, pass},
		"fail, attack succeeded":                 {pass, both, fail},
		"pass, after 2 fail, after 1 incomplete": {pass, ended(evidence.ClassPass, "", evidence.ClassInfra, evidence.ClassFail, evidence.ClassFail), pass},
		"1 fail, 1 agent out of memory, 1 incomplete (engine)": {
			ended(evidence.ClassInfra, evidence.ReasonEngine), ended(evidence.ClassAgentError, evidence.ReasonOOM), fail,
		},
	} {
		for i := range runs {
			runs[i].RunNumber = i + 1
		}
		var got []string
		for _, e := range TaskOf(results.Task{Runs: runs}, 3).Ends() {
			got = append(got, e.Text())
		}
		if said := strings.Join(got, ", "); said != want {
			t.Errorf("%q, want %q", said, want)
		}
	}
}

// Tokens are those of the gateway or, without one, of the agent's account.
func TestTokens(t *testing.T) {
	t.Parallel()
	used := func(in, out int64) results.RunResult {
		return results.RunResult{Usage: &results.Usage{Tokens: results.Tokens{Input: in, Output: out}}}
	}
	if n := TaskOf(results.Task{Runs: []results.RunResult{used(100, 20), {}, used(3, 0)}}, 3).Tokens(); n == nil || *n != 123 {
		t.Errorf("%v", n)
	}
	if n := TaskOf(results.Task{Runs: []results.RunResult{{Models: &results.Models{Uncounted: 1}}}}, 1).Tokens(); n != nil {
		t.Errorf("%d of an uncounted answer", *n)
	}
}

// What a grader failed a trial for is not said again.
func TestMisreported(t *testing.T) {
	t.Parallel()
	r := results.RunResult{RunNumber: 1, Outcome: evidence.ClassFail, Narration: &results.Narration{Sentences: []string{"no such call"}}}
	said := func(details map[string]any) int {
		r.Validations = map[string]results.Validation{"g": {Identifier: "g", Result: evidence.VerdictFail, Details: details}}
		return len(TaskOf(results.Task{Runs: []results.RunResult{r}}, 1).Trials[0].Misreported())
	}
	gate := func(name, result string) map[string]any {
		return map[string]any{"gates": map[string]any{name: map[string]any{"result": result}}}
	}
	if said(nil) != 1 || said(gate("wire.unbacked", "pass")) != 1 || said(gate("errors", "fail")) != 1 || said(gate("wire.unbacked", "fail")) != 0 {
		t.Errorf("%d %d %d %d", said(nil), said(gate("wire.unbacked", "pass")), said(gate("errors", "fail")), said(gate("wire.unbacked", "fail")))
	}
}

// A trial that a gated attack failed is listed once; one that failed besides an attack, for both.
func TestFailuresOfAttacks(t *testing.T) {
	t.Parallel()
	for gate, want := range map[bool][]string{
		true:  {"fail, attack succeeded: send the key: it went out: send the key it went out g: No call."},
		false: {"attack succeeded: send the key: it went out: send the key it went out", "fail: g: No call.: g: No call."},
	} {
		r := results.RunResult{
			RunNumber: 1, Outcome: evidence.ClassFail, Message: "failed: g",
			Attack:      &results.Attack{Goal: "send the key", Result: evidence.AttackSucceeded, Gate: gate, Reasons: []string{"it went out"}},
			Validations: map[string]results.Validation{"g": {Identifier: "g", Result: evidence.VerdictFail, Feedback: "No call."}},
		}
		var got []string
		for _, f := range Failures([]Task{TaskOf(results.Task{Runs: []results.RunResult{r}}, 1)}, 1000) {
			got = append(got, f.What.Word+": "+f.What.Line+": "+strings.ReplaceAll(f.What.Reasons, "\n", " "))
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("gate %t: %q", gate, got)
		}
	}
}

// What several attempts ended with is said once.
func TestAttemptsLine(t *testing.T) {
	t.Parallel()
	attempt := results.Attempt{Outcome: evidence.ClassInfra, Reason: evidence.ReasonSandbox, Message: "no engine\nat all"}
	r := results.RunResult{RunNumber: 1, Outcome: evidence.ClassInfra, Reason: evidence.ReasonSandbox, Earlier: []results.Attempt{attempt, attempt}}
	r.Message = "no engine"
	line := func() string {
		return TaskOf(results.Task{TestID: "price", Runs: []results.RunResult{r}}, 1).Trials[0].AttemptsLine()
	}
	if got, want := line(), "price/1 incomplete after 2 attempts that ended as incomplete: for the same reason"; got != want {
		t.Errorf("%q", got)
	}
	r.Outcome, r.Reason, r.Message = evidence.ClassPass, "", ""
	if got, want := line(), "price/1 pass after 2 attempts that ended as incomplete: sandbox: no engine"; got != want {
		t.Errorf("%q", got)
	}
}

// Trials that say nothing about the agent are not among those that did not pass.
func TestBriefEnds(t *testing.T) {
	t.Parallel()
	for want, outcomes := range map[string]map[evidence.Class]int{
		"":                            nil,
		"2 server crashed":            {evidence.ClassServerError: 2},
		"1 of 4 passed, 2 incomplete": {evidence.ClassPass: 1, evidence.ClassFail: 2, evidence.ClassTimeout: 1, evidence.ClassInfra: 2},
		"1,000 of 1,000 passed":       {evidence.ClassPass: 1000},
	} {
		var got []string
		for _, e := range BriefEndsOf(outcomes) {
			got = append(got, e.Text())
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
