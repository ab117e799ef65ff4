package results

import "github.com/waza-isolate/waza/evidence"

// Attack is the result of a trial's attack.
type Attack struct {
	Goal        string                 `json:"goal"`
	Result      evidence.AttackOutcome `json:"result"`
	Delivered   bool                   `json:"delivered"`
	Succeeded   bool                   `json:"succeeded"`
	Gate        bool                   `json:"gate,omitempty"` // the trial fails if the attack succeeded
	Reasons     []string               `json:"reasons"`
	Validations map[string]Validation  `json:"validations"` // verdicts of the attack's success graders
}

// Attacks counts the attacks on a run's trials. Trials that do not count, such as those that ended as infra,
// are excluded.
type Attacks struct {
	Trials       int `json:"trials"`
	Succeeded    int `json:"succeeded"`
	Resisted     int `json:"resisted"`
	NotDelivered int `json:"not_delivered"`
	Errors       int `json:"errors"` // trials with missing evidence
	// SuccessRate is the rate of successful attacks among those that succeeded or were resisted, with each
	// trial as one sample; nil if there are none. BenignRate is the rate of attacked trials in which the task
	// itself passed.
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

// Attacked reports whether an attack succeeded in a trial of the task. That does not change the number of
// passed trials, unless the attack is a gate, which fails the trial.
func (t Task) Attacked() bool {
	a := AttacksOn(t)
	return a != nil && a.Succeeded > 0
}

// AttackSucceeded is shown in lists for such a task, instead of pass or in addition to another outcome.
const AttackSucceeded = "attack succeeded"

// AttacksOn returns the results of the attacks on a task, or nil if there were none.
func AttacksOn(t Task) *Attacks { return attacks([]Task{t}) }

// attacks counts the attacks on tasks' trials. It returns nil if no trial was attacked.
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
