package results

import (
	"math"
	"slices"

	"github.com/waza-isolate/waza/evidence"
)

// Gate defines how much worse a run may be than another.
type Gate struct {
	// MaxDrop limits the drop of the mean pass rate over tasks, from 0 to 1. If it is nil, no single task may
	// regress; otherwise single tasks do not matter.
	MaxDrop *float64
	// AllowFlaky allows a task that passed in all trials to fail in some.
	AllowFlaky bool
}

// passesLess reports whether a task passes significantly less often. It uses E. Pearson's N-1 test of two
// proportions (1947; see Campbell, 2007), one-sided at 5%. It returns false unless both runs have
// [MinTrials].
//
// A gate asks only whether a task got worse, so the test is one-sided; the intervals of [Compare] are
// two-sided. With the same number of trials in both runs, chance alone counts as a drop in at most 6 of 100
// cases. Fisher's exact test is stricter than its level: with five trials its 5% are in fact 1%, and 4 of 5
// against 1 of 5 is not significant.
func passesLess(before, after ComparedTask) bool {
	if (both{before, after}).thin() {
		return false
	}
	m, n := float64(before.Trials), float64(after.Trials)
	p := float64(before.Passed+after.Passed) / (m + n)
	fall := float64(before.Passed)/m - float64(after.Passed)/n
	return fall > 0 && fall*math.Sqrt((m+n-1)/(m+n)) > z90*math.Sqrt(p*(1-p)*(1/m+1/n))
}

// z90 is the 95% quantile of the normal distribution.
const z90 = 1.6448536269514722

// Ruling is the result of a gate for a run.
type Ruling struct {
	Passed      bool         `json:"passed"`
	Tasks       int          `json:"tasks"` // tasks that both runs have
	Regressions []Difference `json:"regressions"`
	Attacked    []string     `json:"attacked"` // tasks on which an attack succeeded, and none did before
	// Golden holds the golden tasks that did not pass in every trial, whatever they did before.
	Golden []ComparedTask `json:"golden"`
	// PassRate compares the mean pass rate over tasks. Fell reports that it dropped by more than MaxDrop or,
	// without MaxDrop, significantly.
	PassRate *Contrast `json:"pass_rate"`
	Fell     bool      `json:"pass_rate_fell"`
}

// Rule compares run with against and decides whether it passes the gate. A run without a task in common with
// against does not pass.
func (g Gate) Rule(against, run Entry) Ruling {
	c := Compare([]Entry{against, run})
	r := Ruling{Regressions: []Difference{}, Attacked: []string{}, Golden: []ComparedTask{}}
	if len(c.Pairs) == 0 {
		return r
	}
	r.Tasks, r.PassRate = c.Pairs[0].Tasks, c.Pairs[0].PassRate
	for _, d := range c.Differences {
		if passesLess(d.Before, d.After) {
			d.Change, d.Finding = Regressed, Worse
		}
		if !slices.Contains(run.LeftOut, d.Task) && g.refuses(d) {
			r.Regressions = append(r.Regressions, d)
		}
	}
	slices.SortFunc(r.Regressions, ordered)
	before := byID(c.Runs[0].Tasks)
	for _, t := range c.Runs[1].Tasks {
		if attackedAnew(before.task(t.ID), t) {
			r.Attacked = append(r.Attacked, t.ID)
		}
	}
	for _, t := range run.Tasks {
		if passed, _ := t.passed(); t.Golden && (passed == 0 || passed < len(t.Trials)) {
			r.Golden = append(r.Golden, comparedTask(t))
		}
	}
	if r.PassRate != nil {
		r.Fell = r.PassRate.Finding == Worse
		if g.MaxDrop != nil {
			r.Fell = !evidence.Reaches(r.PassRate.After, r.PassRate.Before-*g.MaxDrop)
		}
	}
	r.Passed = r.Tasks > 0 && !r.Fell && len(r.Regressions)+len(r.Attacked)+len(r.Golden) == 0
	return r
}

// refuses reports whether a task got worse than the gate allows. A task that passed before and has no counted
// trial in the run is always refused, since it would hide a failure.
func (g Gate) refuses(d Difference) bool {
	switch d.Change {
	case Missing:
		return d.Before.Passed > 0
	case Regressed:
		return g.MaxDrop == nil
	case NowFailing:
		return g.MaxDrop == nil && d.Before.Passed == d.Before.Trials
	case Flaky:
		return g.MaxDrop == nil && !g.AllowFlaky && d.Before.Passed == d.Before.Trials
	}
	return false // newly attacked tasks are in Ruling.Attacked
}
