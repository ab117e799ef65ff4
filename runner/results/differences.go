package results

import "math"

// Change is what became of a task from one run to another.
type Change string

// Changes.
const (
	Regressed Change = "regressed" // no trial passes, and some did
	Fixed     Change = "fixed"     // every trial passes, and some did not
	Flaky     Change = "flaky"     // some trials pass
	Missing   Change = "missing"   // no trial counts, and some did
	Added     Change = "added"     // some trials count, and none did
)

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
}

// differences are those of run from base, in the order of base's tasks. A run that
// broke has none.
func differences(base, run ComparedRun) (all []Difference) {
	if base.Error != "" && len(base.Tasks) == 0 || run.Error != "" && len(run.Tasks) == 0 {
		return nil
	}
	add := func(before, after ComparedTask) {
		if change := changed(before, after); change != "" {
			all = append(all, Difference{
				Run: run.Run, Against: base.Run, Change: change, Task: before.ID,
				Before: before, After: after, PassRate: newcombe(before, after),
			})
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
	return ComparedTask{ID: id, Mark: unknown}
}

// changed is empty where a task always passes, or never, in both.
func changed(before, after ComparedTask) Change {
	switch {
	case before.Trials == 0 && after.Trials == 0:
		return ""
	case after.Trials == 0:
		return Missing
	case before.Trials == 0:
		return Added
	case after.Passed > 0 && after.Passed < after.Trials:
		return Flaky
	case after.Passed == 0 && before.Passed > 0:
		return Regressed
	case after.Passed == after.Trials && before.Passed < before.Trials:
		return Fixed
	}
	return ""
}

// newcombe is the difference of two shares with the interval that Newcombe makes of
// Wilson's (1998, method 10).
func newcombe(before, after ComparedTask) *Interval {
	if before.Trials == 0 || after.Trials == 0 {
		return nil
	}
	b, a := wilson(before.Passed, before.Trials), wilson(after.Passed, after.Trials)
	d := a.Mean - b.Mean
	return &Interval{
		Lower: d - math.Hypot(a.Mean-a.Lower, b.Upper-b.Mean),
		Upper: d + math.Hypot(a.Upper-a.Mean, b.Mean-b.Lower),
		Mean:  d, ConfidenceLevel: confidence,
	}
}
