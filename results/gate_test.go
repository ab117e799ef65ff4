package results

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
)

// entryOf returns a run with tasks written as a=pass,fail b=pass, a golden one as a!=pass.
func entryOf(tasks string) Entry {
	e := Entry{Outline: Outline{EvalName: "e"}}
	for task := range strings.FieldsSeq(tasks) {
		id, ends, _ := strings.Cut(task, "=")
		id, golden := strings.CutSuffix(id, "!")
		t := TaskOutline{ID: id, Golden: golden}
		for end := range strings.SplitSeq(ends, ",") {
			outcome, attack, _ := strings.Cut(end, "/")
			t.Trials = append(t.Trials, TrialOutline{Outcome: evidence.Class(outcome), Attack: AttackOutline{evidence.AttackOutcome(attack)}})
		}
		e.Tasks = append(e.Tasks, t)
	}
	return e
}

func TestGate(t *testing.T) {
	points := func(p float64) *float64 { p /= 100; return &p }
	const thrice, never = "pass,pass,pass", "fail,fail,fail"
	tests := []struct {
		name        string
		gate        Gate
		before, now string
		want        string // regressions, attacked tasks, and whether the rate fell; empty to pass
	}{
		{"as before", Gate{}, "a=pass b=fail", "a=pass b=fail", ""},
		{"more tasks", Gate{}, "a=pass", "a=pass b=fail", ""},
		{"one trial", Gate{}, "a=pass b=fail", "a=fail b=pass", "[now failing a] [] false"},
		{"beyond chance", Gate{}, "a=" + thrice, "a=" + never, "[regressed a] [] true"},
		{"some trials", Gate{}, "a=" + thrice, "a=pass,pass,fail", "[flaky a] [] false"},
		{"some trials, allowed", Gate{AllowFlaky: true}, "a=" + thrice, "a=pass,pass,fail", ""},
		{"flaky before too", Gate{}, "a=pass,fail,pass", "a=fail,fail,pass", ""},
		{"left out", Gate{}, "a=pass b=pass", "a=pass", "[missing b] [] false"},
		{"infra", Gate{}, "a=pass b=pass", "a=pass b=infra", "[missing b] [] false"},
		{"left out, where the rate decides", Gate{MaxDrop: points(100)}, "a=pass b=pass", "a=pass", "[missing b] [] false"},
		{"a drop that is allowed", Gate{MaxDrop: points(50)}, "a=pass b=pass", "a=fail b=pass", ""},
		{"a drop that is not", Gate{MaxDrop: points(49)}, "a=pass b=pass", "a=fail b=pass", "[] [] true"},
		{"a drop of tenths", Gate{MaxDrop: points(10)}, "a=pass b=pass,pass,pass,pass,pass", "a=pass b=pass,pass,pass,pass,fail", ""},
		{"one for another", Gate{MaxDrop: points(0)}, "a=pass b=fail", "a=fail b=pass", ""},
		{"an attack", Gate{}, "a=pass/resisted b=pass/succeeded", "a=pass/succeeded b=pass/succeeded", "[] [a] false"},
		{"a golden task", Gate{}, "a=pass", "a!=pass", ""},
		{"a golden task that failed before too", Gate{}, "a=fail b=pass", "a!=fail b=pass", "[] [] false [a]"},
		{"a golden task that is new", Gate{}, "b=pass", "a!=fail b=pass", "[] [] false [a]"},
		{"a golden task in most trials", Gate{AllowFlaky: true, MaxDrop: points(100)}, "a=pass,pass", "a!=pass,fail", "[] [] false [a]"},
		{"a golden task that infra kept", Gate{}, "a=infra b=pass", "a!=pass,infra b=pass", "[] [] false [a]"},
		{"a golden task that did not run", Gate{}, "b=pass", "a!= b=pass", "[] [] false [a]"},
		{"golden before alone", Gate{}, "a!=fail", "a=fail", ""},
		{"nothing in common", Gate{}, "a=fail", "b=pass", "[] [] false"},
		{"nothing at all", Gate{}, "", "", "[] [] false"},
	}
	for _, test := range tests {
		r := test.gate.Rule(entryOf(test.before), entryOf(test.now))
		var regressions []string
		for _, d := range r.Regressions {
			regressions = append(regressions, fmt.Sprintf("%s %s", d.Change, d.Task))
		}
		got := ""
		if !r.Passed {
			got = fmt.Sprint(regressions, " ", r.Attacked, " ", r.Fell)
			for _, task := range r.Golden {
				got += fmt.Sprintf(" [%s]", task.ID)
			}
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
