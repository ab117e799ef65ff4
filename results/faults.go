package results

import (
	"slices"

	"github.com/waza-isolate/waza/evidence"
)

// Faults says how often trials with injected faults passed.
type Faults struct {
	Made int   `json:"made"`
	With *Rate `json:"pass_rate"` // rate over the counted trials with a fault; nil if there are none
	// Without is the rate over the same trials of the baseline; nil without a baseline.
	Without *Rate `json:"pass_rate_baseline"`
}

// faultsIn counts the faults of a trial.
func faultsIn(trial Trial) (n int) {
	for _, call := range trial.Calls {
		if call.Fault != "" {
			n++
		}
	}
	for _, call := range trial.Models {
		if call.Fault != "" {
			n++
		}
	}
	return n
}

// faults returns the faults in tasks, or nil if there were none. base holds the tasks of the baseline.
func faults(tasks, base []Task) *Faults {
	var f Faults
	var with, without []RunResult
	for _, t := range tasks {
		var same []RunResult
		if i := slices.IndexFunc(base, func(b Task) bool { return b.TestID == t.TestID }); i >= 0 {
			same = counted(base[i].Runs)
		}
		for _, r := range counted(t.Runs) {
			if r.Faults == 0 {
				continue
			}
			f.Made, with = f.Made+r.Faults, append(with, r)
			if i := slices.IndexFunc(same, func(b RunResult) bool { return b.RunNumber == r.RunNumber }); i >= 0 {
				without = append(without, same[i])
			}
		}
	}
	if f.Made == 0 && base == nil {
		return nil
	}
	f.With, f.Without = passes(with), passes(without)
	return &f
}

// passes returns the rate of trials that passed, or nil if there are none.
func passes(all []RunResult) *Rate {
	passed := 0
	for _, r := range all {
		if r.Outcome == evidence.ClassPass {
			passed++
		}
	}
	return rate(passed, len(all))
}
