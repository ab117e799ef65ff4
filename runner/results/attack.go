package results

import (
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/runner/evidence"
)

// Attack is what came of a trial's attack.
type Attack struct {
	Goal        string                `json:"goal"`
	Result      evidence.AttackEnd    `json:"result"`
	Delivered   bool                  `json:"delivered"`
	Succeeded   bool                  `json:"succeeded"`
	Reasons     []string              `json:"reasons"`
	Validations map[string]Validation `json:"validations"` // of the graders of its success
}

// Attacks are those of a run's trials, but for trials that ended as infra.
type Attacks struct {
	Trials       int `json:"trials"`
	Succeeded    int `json:"succeeded"`
	Resisted     int `json:"resisted"`
	NotDelivered int `json:"not_delivered"`
	Errors       int `json:"errors"` // evidence is missing
	// SuccessRate is over attacks that succeeded or were resisted, each trial being one
	// sample; nil without any. BenignRate is how often the task itself passed in the trials
	// that were attacked.
	SuccessRate *Rate `json:"success_rate"`
	BenignRate  *Rate `json:"benign_success_rate"`
}

func attackOf(trial Trial) *Attack {
	v := trial.Verdicts.Attack
	if v == nil {
		return nil
	}
	return &Attack{
		Goal: v.Goal, Result: v.Result, Delivered: v.Delivered, Succeeded: v.Succeeded, Reasons: v.Reasons,
		Validations: validations(v.Verdicts),
	}
}

// attacks is nil where no trial was attacked.
func attacks(tasks []Task) *Attacks {
	var a Attacks
	passed := 0
	for _, t := range tasks {
		for _, r := range counted(t.Runs) {
			if r.Attack == nil {
				continue
			}
			a.add(r)
			if r.Status == StatusPassed {
				passed++
			}
		}
	}
	if a.Trials == 0 {
		return nil
	}
	a.SuccessRate, a.BenignRate = rate(a.Succeeded, a.Succeeded+a.Resisted), rate(passed, a.Trials)
	return &a
}

func (a *Attacks) add(r RunResult) {
	a.Trials++
	switch r.Attack.Result {
	case evidence.AttackSucceeded:
		a.Succeeded++
	case evidence.AttackResisted:
		a.Resisted++
	case evidence.AttackNotDelivered:
		a.NotDelivered++
	default:
		a.Errors++
	}
}

// attackTable writes a line for each task that was attacked: of its trials, how many
// passed and what came of their attacks. A line behind them has the rates.
func (r Results) attackTable(width int) string {
	a := r.Summary.Attacks
	switch {
	case a == nil && r.Config.NoAttacks:
		return "attacks were withheld by --no-attacks\n"
	case a == nil:
		return ""
	}
	rows := [][]string{{"UNDER ATTACK", "PASSED", "ATTACK"}}
	for _, t := range r.Tasks {
		if one := attacks([]Task{t}); one != nil {
			rows = append(rows, []string{t.TestID, share(one.BenignRate.Count, one.BenignRate.Of), one.ends()})
		}
	}
	widths := columnWidths(rows)
	if width > 0 {
		widths[0] = min(widths[0], max(width-widths[1]-widths[2]-4, minTask))
	}
	var out strings.Builder
	out.WriteByte('\n')
	for _, cells := range rows {
		writeRow(&out, cells, widths)
	}
	fmt.Fprintf(&out, "attacks: %s; tasks under attack: %s\n", a.SuccessRate.told("succeeded"), a.BenignRate.told("passed"))
	return out.String()
}

// ends lists what came of attacks, each with how often that was where it was not always.
func (a Attacks) ends() string {
	var ends []string
	for _, end := range []struct {
		name  string
		count int
	}{{"succeeded", a.Succeeded}, {"resisted", a.Resisted}, {"not delivered", a.NotDelivered}, {"error", a.Errors}} {
		switch end.count {
		case 0:
		case a.Trials:
			ends = append(ends, end.name)
		default:
			ends = append(ends, fmt.Sprintf("%s %d", end.name, end.count))
		}
	}
	return strings.Join(ends, ", ")
}

// told is a rate in words, with its interval.
func (r *Rate) told(did string) string {
	if r == nil {
		return "none to tell of"
	}
	return fmt.Sprintf("%d of %d %s, %.0f%% [%.0f%%, %.0f%%]", r.Count, r.Of, did, 100*r.Mean, 100*r.Lower, 100*r.Upper)
}
