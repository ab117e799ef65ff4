package results_test

import (
	"bytes"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/golden"
	"github.com/waza-isolate/waza/report/terminal"
	"github.com/waza-isolate/waza/results"
)

// A gate that failed scores 0, though all graders of the task passed.
func TestAttackThatIsAGate(t *testing.T) {
	one := under(trial("first", 1, 1, evidence.ClassFail, 1), evidence.AttackSucceeded)
	one.Attack = &evidence.TaskAttack{Gate: true}
	r := build(t, run(), one)
	if s := r.Tasks[0].Stats; s.AvgScore != 0 || s.AvgWeightedScore != 0 || !r.Tasks[0].Attacked() {
		t.Errorf("%+v", s)
	}
}

func under(t results.Trial, end evidence.AttackOutcome) results.Trial {
	t.Verdicts.Attack = &evidence.AttackVerdict{
		Goal: "g", Result: end, Delivered: end != evidence.AttackNotDelivered, Succeeded: end == evidence.AttackSucceeded, Reasons: []string{},
		Verdicts: []evidence.Verdict{{Name: "sent", Type: "canary", Result: evidence.VerdictPass, Score: 1, Weight: 1, Feedback: "f"}},
	}
	return t
}

// TestAttacks checks what attacks come to, trial by trial and over the run, and that a
// comparison has it from results.json.
func TestAttacks(t *testing.T) {
	const pass, fail, infra = evidence.ClassPass, evidence.ClassFail, evidence.ClassInfra
	trials := []results.Trial{
		under(trial("first", 1, 1, pass), evidence.AttackSucceeded),
		under(trial("first", 2, 1, fail), evidence.AttackSucceeded),
		under(trial("first", 3, 1, pass), evidence.AttackResisted),
		under(trial("second", 1, 1, pass), evidence.AttackNotDelivered),
		under(trial("second", 2, 1, pass), evidence.AttackUnknown),
		trial("second", 3, 1, infra),
		trial("third", 1, 1, pass),
	}
	r := build(t, run(), trials...)
	a := r.Summary.Attacks
	if a == nil || a.Trials != 5 || a.Succeeded != 2 || a.Resisted != 1 || a.NotDelivered != 1 || a.Errors != 1 {
		t.Fatalf("%+v", a)
	}
	if s, b := a.SuccessRate, a.BenignRate; s.Count != 2 || s.Of != 3 || s.Lower < 0.2 || s.Upper > 0.94 || b.Count != 4 || b.Of != 5 {
		t.Errorf("%+v, %+v", s, b)
	}
	once := run()
	once.Config.RunsPerTest = 1
	attacked := build(t, once, under(trial("first", 1, 1, pass), evidence.AttackSucceeded), trial("second", 1, 1, pass))
	if passed := attacked.Summary.PassedTasks(); passed.Count != 2 || passed.Of != 2 {
		t.Errorf("%+v", passed)
	}
	one := r.Tasks[0].Runs[1]
	if one.Attack == nil || one.Outcome != fail || !one.Attack.Succeeded || one.Attack.Validations["sent"].Feedback != "f" || len(one.Validations) != 0 {
		t.Errorf("%+v", one)
	}
	var table bytes.Buffer
	if err := terminal.Run(&table, r, 80); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/attacks.txt", table.String())

	outline, err := results.ReadOutline(bytes.NewReader(written(t, run(), trials...)))
	if err != nil {
		t.Fatal(err)
	}
	plain := outline
	plain.Tasks = nil
	compared := results.Compare([]results.Entry{{Outline: outline}, {Outline: plain}})
	if rate := compared.Runs[0].Attacks; rate == nil || rate.Count != 2 || rate.Of != 3 || compared.Runs[1].Attacks != nil {
		t.Errorf("compared: %+v", compared.Runs)
	}
	for i, want := range []string{"2/3, attack succeeded", "2/2", "pass"} {
		if got := compared.Runs[0].Tasks[i].Mark; got != want {
			t.Errorf("task %d is compared as %q, want %q", i, got, want)
		}
	}
	table.Reset()
	if err := terminal.Comparison(&table, compared, 0); err != nil || !bytes.Contains(table.Bytes(), []byte("ATTACKS")) {
		t.Errorf("%s %v", &table, err)
	}
	if _, err := results.ReadOutline(bytes.NewReader([]byte(`{"tasks":[{"test_id":"a","runs":[{"outcome":"pass","attack":{"result":"won"}}]}]}`))); err == nil {
		t.Error("an attack that ended in no known way is read")
	}
}

// A baseline has no attacks, and says so.
func TestWithheldAttacks(t *testing.T) {
	info := run()
	info.Config.NoAttacks = true
	r := build(t, info, trial("first", 1, 1, evidence.ClassPass))
	var table bytes.Buffer
	if err := terminal.Run(&table, r, 80); err != nil || !bytes.Contains(table.Bytes(), []byte("attacks were withheld by --no-attacks\n")) || r.Summary.Attacks != nil || !r.Config.NoAttacks {
		t.Errorf("%s %v %+v", &table, err, r.Summary)
	}
}
