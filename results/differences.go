package results

import (
	"cmp"
	"math"
	"slices"
)

// Change is what became of a task from one run to another. That it regressed, or is
// fixed, is said where a difference is shown; else what is seen of its trials.
type Change string

// Changes of a task.
const (
	Regressed  Change = "regressed"   // beyond chance fewer trials pass
	NowFailing Change = "now failing" // no trial passes, and some did; chance may do as much
	Missing    Change = "missing"     // no trial counts, and some did
	Flaky      Change = "flaky"       // some trials pass
	Fixed      Change = "fixed"       // beyond chance more trials pass
	NowPassing Change = "now passing" // every trial passes, and some did not; chance may do as much
	Added      Change = "added"       // some trials count, and none did
)

// Changes are all in the order in which they are listed: what to look at comes first.
func Changes() []Change {
	return []Change{Regressed, NowFailing, Missing, Flaky, Fixed, NowPassing, Added}
}

// ForTheWorse says whether a person has to look at it.
func (c Change) ForTheWorse() bool { return c == Regressed || c == NowFailing || c == Missing }

// Difference is a task that went otherwise than in another run.
type Difference struct {
	Run     int          `json:"run"`
	Against int          `json:"against"`
	Change  Change       `json:"change"`
	Task    string       `json:"test_id"`
	Before  ComparedTask `json:"before"`
	After   ComparedTask `json:"after"`
	// PassRate is by how much the share of trials that pass differs, from -1 to 1; nil
	// where one run has none that count.
	PassRate *Interval `json:"pass_rate_difference,omitempty"`
	Finding  Finding   `json:"finding,omitempty"`
	// Few says that some trials count in both runs, but in one fewer than three: then
	// nothing is shown, and the interval is not worth its name.
	Few bool `json:"too_few_trials,omitempty"`
}

// differences are those of run from base, in no order. A run that broke has none.
func differences(base, run ComparedRun) (all []Difference) {
	add := func(before, after ComparedTask) {
		d := Difference{Run: run.Run, Against: base.Run, Task: before.ID, Before: before, After: after}
		d.PassRate, d.Finding = newcombe(before, after)
		d.Few = d.PassRate != nil && thin(before, after)
		if d.Change = changed(before, after, d.Finding); d.Change != "" {
			all = append(all, d)
		}
	}
	later := byID(run.Tasks)
	for _, before := range base.Tasks {
		add(before, later.task(before.ID))
	}
	earlier := byID(base.Tasks)
	for _, after := range run.Tasks {
		if _, ok := earlier[after.ID]; !ok {
			add(earlier.task(after.ID), after)
		}
	}
	return all
}

// ordered puts differences in the order of their changes. Of a kind, the larger come
// first, and of these the worse.
func ordered(a, b Difference) int {
	return cmp.Or(
		cmp.Compare(a.Change.rank(), b.Change.rank()),
		-cmp.Compare(math.Abs(a.mean()), math.Abs(b.mean())),
		cmp.Compare(a.mean(), b.mean()),
		cmp.Compare(a.Task, b.Task),
		cmp.Compare(a.Run, b.Run),
	)
}

func (c Change) rank() int { return slices.Index(Changes(), c) }

func (d Difference) mean() float64 {
	if d.PassRate == nil {
		return 0
	}
	return d.PassRate.Mean
}

type tasksByID map[string]ComparedTask

func byID(tasks []ComparedTask) tasksByID {
	all := tasksByID{}
	for _, t := range tasks {
		all[t.ID] = t
	}
	return all
}

// task is the one of that id, without trials where there is none.
func (t tasksByID) task(id string) ComparedTask {
	if found, ok := t[id]; ok {
		return found
	}
	return ComparedTask{ID: id, Mark: unknownMark}
}

// changed is empty where a task always passes, or never, in both.
func changed(before, after ComparedTask, shows Finding) Change {
	switch {
	case before.Trials == 0 && after.Trials == 0:
		return ""
	case after.Trials == 0:
		return Missing
	case before.Trials == 0:
		return Added
	case shows == Worse:
		return Regressed
	case shows == Better:
		return Fixed
	case after.Passed == 0 && before.Passed > 0:
		return NowFailing
	case after.Passed == after.Trials && before.Passed < before.Trials:
		return NowPassing
	case after.Passed > 0 && after.Passed < after.Trials:
		return Flaky
	}
	return ""
}

// minTrials is how many trials a task has in each of two runs at least for its interval
// to show something. Where both runs are alike, chance shows a difference in up to one
// case of eight with fewer: as with 2 of 2 against 0 of 2.
const minTrials = 3

func thin(before, after ComparedTask) bool { return min(before.Trials, after.Trials) < minTrials }

// newcombe is the difference of two shares with the interval that Newcombe makes of
// Wilson's (1998, method 10), and what it shows; of runs that both have trials.
func newcombe(before, after ComparedTask) (*Interval, Finding) {
	if before.Trials == 0 || after.Trials == 0 {
		return nil, ""
	}
	b, a := before.PassRate, after.PassRate
	d := a.Mean - b.Mean
	i := &Interval{
		Lower: d - math.Hypot(a.Mean-a.Lower, b.Upper-b.Mean),
		Upper: d + math.Hypot(a.Upper-a.Mean, b.Mean-b.Lower),
		Mean:  d, ConfidenceLevel: confidence,
	}
	if thin(before, after) {
		return i, NoDifference
	}
	return i, findingOf(i, 0)
}
