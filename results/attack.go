package results

import "github.com/waza-isolate/waza/evidence"

// Attack is the result of a trial's attack.
type Attack struct {
	Goal        string                 `json:"goal"`
	Result      evidence.AttackOutcome `json:"result"`
	Delivered   bool                   `json:"delivered"`
	Succeeded   bool                   `json:"succeeded"`
	Gate        bool                   `json:"gate,omitempty"` // the trial fails if it succeeded
	Reasons     []string               `json:"reasons"`
	Validations map[string]Validation  `json:"validations"` // of the graders of its success
}

// Attacks counts the attacks on a run's trials. Trials that ended as infra are excluded.
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
		Gate: trial.Attack != nil && trial.Attack.Gate,
		Goal: v.Goal, Result: v.Result, Delivered: v.Delivered, Succeeded: v.Succeeded, Reasons: v.Reasons,
		Validations: validations(v.Verdicts),
	}
}

// Attacked reports whether an attack succeeded in the trial, if the trial counts.
func (r RunResult) Attacked() bool {
	return counts(r) && r.Attack != nil && r.Attack.Result == evidence.AttackSucceeded
}

// Attacked reports whether an attack succeeded in one of the trials. It changes no count of what
// passed, unless the attack is a gate: then the trial failed.
func (t Task) Attacked() bool {
	a := AttacksOn(t)
	return a != nil && a.Succeeded > 0
}

// AttackSucceeded is what lists show for such a task, in place of pass or in addition to
// how it ended.
const AttackSucceeded = "attack succeeded"

// AttacksOn returns the results of the attacks on a task, or nil if there were none.
func AttacksOn(t Task) *Attacks { return attacks([]Task{t}) }

// attacks returns nil where no trial was attacked.
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
