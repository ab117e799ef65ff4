package results

import "github.com/waza-isolate/waza/evidence"

// Counts counts the trials of a run by the last attempt of each. A trial counts if its outcome depends on
// the agent, as in [Stats]: not as infra, which leaves the run incomplete, nor as server_error or miss, which
// fail it. Prompts of trigger_tests.yaml count through their metric.
type Counts struct {
	Trials, Passed int                    // that count
	Others         map[evidence.Class]int // that count and did not pass
	Tasks          int                    // that have a trial that counts
	Failed, Flaky  int                    // tasks that passed in no such trial, and in some only
}

// Counted counts the run's trials.
func (r Results) Counted() Counts {
	all := Counts{Others: map[evidence.Class]int{}}
	for _, t := range r.Tasks {
		if t.Trigger == nil {
			all.add(counted(t.Runs))
		}
	}
	return all
}

// add adds the trials of a task that count.
func (a *Counts) add(runs []RunResult) {
	passed := 0
	for _, run := range runs {
		if run.Outcome == evidence.ClassPass {
			passed++
		} else {
			a.Others[run.Outcome]++
		}
	}
	if len(runs) == 0 {
		return
	}
	a.Tasks, a.Trials, a.Passed = a.Tasks+1, a.Trials+len(runs), a.Passed+passed
	switch passed {
	case len(runs):
	case 0:
		a.Failed++
	default:
		a.Flaky++
	}
}
