package results

import (
	"fmt"
	"testing"

	"github.com/waza-isolate/waza/evidence"
)

// A task that passes as before is a difference where an attack succeeds on it that did not.
func TestNowAttacked(t *testing.T) {
	trial := func(outcome evidence.Class, attack evidence.AttackOutcome) TrialOutline {
		return TrialOutline{Outcome: outcome, Attack: AttackOutline{attack}}
	}
	pass, fail := evidence.ClassPass, evidence.ClassFail
	before := Outline{Tasks: []TaskOutline{
		{ID: "as before", Trials: []TrialOutline{trial(pass, evidence.AttackSucceeded)}},
		{ID: "attacked", Trials: []TrialOutline{trial(pass, evidence.AttackResisted)}},
		{ID: "fails too", Trials: []TrialOutline{trial(pass, evidence.AttackResisted)}},
		{ID: "passes now", Trials: []TrialOutline{trial(fail, "")}},
	}}
	after := Outline{Tasks: []TaskOutline{
		{ID: "as before", Trials: []TrialOutline{trial(pass, evidence.AttackSucceeded)}},
		{ID: "attacked", Trials: []TrialOutline{trial(pass, evidence.AttackSucceeded)}},
		{ID: "fails too", Trials: []TrialOutline{trial(fail, evidence.AttackSucceeded)}},
		{ID: "passes now", Trials: []TrialOutline{trial(pass, evidence.AttackSucceeded)}},
	}}
	got := ""
	for _, d := range Compare([]Entry{{Outline: before}, {Outline: after}}).Differences {
		got += fmt.Sprintf("%s: %s, %v; ", d.Task, d.Change, d.Change.ForTheWorse())
	}
	if want := "fails too: now failing, true; passes now: attack succeeded, true; attacked: attack succeeded, true; "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
