package results

import (
	"fmt"
	"slices"
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
	trials := func(passed, of int) string {
		return "a=" + strings.Join(append(slices.Repeat([]string{"pass"}, passed), slices.Repeat([]string{"fail"}, of-passed)...), ",")
	}
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
		{"not selected", Gate{}, "a=pass c=pass", "a=pass", ""},
		{"selected, without a trial that counts", Gate{}, "a=pass b=pass c=pass", "a=pass b=infra", "[missing b] [] false"},
		{"1 trial never passed", Gate{}, trials(0, 1), trials(0, 1), ""},
		{"1 trial, of several before", Gate{}, trials(2, 3), trials(0, 1), ""},
		{"2 of 3 to none", Gate{}, trials(2, 3), trials(0, 3), ""},
		{"all of 3 to 1, flaky allowed", Gate{AllowFlaky: true}, trials(3, 3), trials(1, 3), ""},
		{"all of 3 to none, flaky allowed", Gate{AllowFlaky: true}, trials(3, 3), trials(0, 3), "[regressed a] [] true"},
		{"1 of 5 to none", Gate{}, trials(1, 5), trials(0, 5), ""},
		{"2 of 5 to none", Gate{}, trials(2, 5), trials(0, 5), ""},
		{"3 of 5 to none", Gate{}, trials(3, 5), trials(0, 5), "[regressed a] [] true"},
		{"4 of 5 to 1", Gate{}, trials(4, 5), trials(1, 5), "[regressed a] [] false"},
		{"4 of 5 to 2", Gate{}, trials(4, 5), trials(2, 5), ""},
		{"4 of 5 to 1, flaky allowed", Gate{AllowFlaky: true}, trials(4, 5), trials(1, 5), "[regressed a] [] false"},
		{"4 of 5 to 1, where the rate decides", Gate{MaxDrop: points(60)}, trials(4, 5), trials(1, 5), ""},
		{"1 of 5 to 4", Gate{}, trials(1, 5), trials(4, 5), ""},
		{"9 of 10 to 7", Gate{}, trials(9, 10), trials(7, 10), ""},
		{"9 of 10 to 5", Gate{}, trials(9, 10), trials(5, 10), "[regressed a] [] false"},
		{"2 of 10 to none", Gate{}, trials(2, 10), trials(0, 10), ""},
		{"45 of 50 to 40", Gate{}, trials(45, 50), trials(40, 50), ""},
		{"45 of 50 to 38", Gate{}, trials(45, 50), trials(38, 50), "[regressed a] [] false"},
		{"2 of 50 to none", Gate{}, trials(2, 50), trials(0, 50), ""},
		{"1 of 50 to 1 of 3", Gate{}, trials(1, 50), trials(1, 3), ""},
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
		run := entryOf(test.now)
		run.LeftOut = []string{"c"}
		r := test.gate.Rule(entryOf(test.before), run)
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
