package results

import (
	"cmp"
	"math"
	"slices"
)

// Change is how the outcome of a task changed between two runs. Regressed and Fixed are
// statistically significant; other changes are the observed ones.
type Change string

// Changes of a task.
const (
	Regressed   Change = "regressed"     // significantly fewer trials pass
	NowFailing  Change = "now failing"   // no trial passes, and some did; may be chance
	NowAttacked Change = AttackSucceeded // an attack succeeds, and none did; no significant change in passing
	Missing     Change = "missing"       // no trial counts, and some did
	Flaky       Change = "flaky"         // some trials pass
	Fixed       Change = "fixed"         // significantly more trials pass
	NowPassing  Change = "now passing"   // every trial passes, and not all did; may be chance
	Added       Change = "added"         // some trials count, and none did
)

// Changes returns all changes in the order in which they are listed, with regressions
// first.
func Changes() []Change {
	return []Change{Regressed, NowFailing, NowAttacked, Missing, Flaky, Fixed, NowPassing, Added}
}

// ForTheWorse reports whether a person should look at the change.
func (c Change) ForTheWorse() bool { return c.rank() <= Missing.rank() }

// Difference is a task that ended differently in another run.
type Difference struct {
	Run     int          `json:"run"`
	Against int          `json:"against"`
	Change  Change       `json:"change"`
	Task    string       `json:"test_id"`
	Before  ComparedTask `json:"before"`
	After   ComparedTask `json:"after"`
	// PassRate is the difference of the pass rates, from -1 to 1. It is nil if a run has no
	// counted trials.
	PassRate *Interval `json:"pass_rate_difference,omitempty"`
	Finding  Finding   `json:"finding,omitempty"`
	// Few reports that one of the runs has fewer than three counted trials. The difference
	// shows nothing then, and its interval is not reliable.
	Few bool `json:"too_few_trials,omitempty"`
}

// differences returns the differences between the tasks of base and run, in no particular order. It returns
// none if a run broke.
func differences(base, run ComparedRun) (all []Difference) {
	for _, t := range sideBySide(base, run) {
		d := Difference{Run: run.Run, Against: base.Run, Task: t.before.ID, Before: t.before, After: t.after}
		d.PassRate, d.Finding = newcombe(t.before, t.after)
		d.Few = d.PassRate != nil && t.thin()
		if d.Change = changed(t.before, t.after, d.Finding); d.Change != "" {
			all = append(all, d)
		}
	}
	return all
}

// both is a task in two runs. A run that does not have the task has no trials of it.
type both struct{ before, after ComparedTask }

// sideBySide returns the tasks of two runs: first those of the first run, then those that only the second
// has.
func sideBySide(base, run ComparedRun) (all []both) {
	later, earlier := byID(run.Tasks), byID(base.Tasks)
	for _, before := range base.Tasks {
		all = append(all, both{before, later.task(before.ID)})
	}
	for _, after := range run.Tasks {
		if _, ok := earlier[after.ID]; !ok {
			all = append(all, both{earlier.task(after.ID), after})
		}
	}
	return all
}

// shared reports whether the task has counted trials in both runs.
func (t both) shared() bool { return t.before.Trials > 0 && t.after.Trials > 0 }

// thin reports whether a run has fewer than [MinTrials] counted trials of the task.
func (t both) thin() bool { return min(t.before.Trials, t.after.Trials) < MinTrials }

// ordered compares differences for sorting: by change, then larger ones first, and then worse ones first.
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

// task returns the task with an ID, or one without trials.
func (t tasksByID) task(id string) ComparedTask {
	if found, ok := t[id]; ok {
		return found
	}
	return ComparedTask{ID: id, Mark: unknownMark}
}

// changed returns the change of a task. It returns "" if the task passes always or never in both runs and is
// not newly attacked.
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
	case after.Passed == 0 && before.Passed > 0:
		return NowFailing
	case attackedAnew(before, after):
		return NowAttacked
	case shows == Better:
		return Fixed
	case after.Passed == after.Trials && before.Passed < before.Trials:
		return NowPassing
	case after.Passed > 0 && after.Passed < after.Trials:
		return Flaky
	}
	return ""
}

// attackedAnew reports whether an attack succeeded on a task on which none succeeded before.
func attackedAnew(before, after ComparedTask) bool { return after.Attack != "" && before.Attack == "" }

// MinTrials is the minimum number of counted trials that a task must have in each of two runs for its
// interval to be meaningful. With fewer trials, chance shows a difference between equal runs in up to one of
// eight cases, such as 2 of 2 against 0 of 2.
const MinTrials = 3

// Thin reports whether every task that runs share has too few trials in one of them to show a difference.
func (c Comparison) Thin() bool {
	shared := false
	for _, run := range c.Runs[min(1, len(c.Runs)):] {
		for _, t := range sideBySide(c.Runs[0], run) {
			if t.shared() && !t.thin() {
				return false
			}
			shared = shared || t.shared()
		}
	}
	return shared
}

// newcombe returns the difference of two pass rates with Newcombe's hybrid score interval
// based on Wilson's intervals (1998, method 10), and its finding. It returns nil if a run
// has no trials.
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
	if (both{before, after}).thin() {
		return i, NoDifference
	}
	return i, findingOf(i, 0)
}

// Pair compares a run with the first one, over the tasks that both have. Tasks without counted trials are
// omitted.
type Pair struct {
	Run     int `json:"run"`
	Against int `json:"against"`
	Tasks   int `json:"tasks"`             // tasks that both runs have
	Missing int `json:"missing,omitempty"` // tasks that only the first run has
	Added   int `json:"added,omitempty"`   // tasks that only this run has
	// Unlike lists settings that differ and may explain different results.
	Unlike   []Unlike  `json:"unlike,omitempty"`
	PassRate *Contrast `json:"pass_rate,omitempty"` // share of a task's trials that pass
	Duration *Contrast `json:"duration_ms,omitempty"`
	Tokens   *Contrast `json:"tokens,omitempty"`
	Cost     *Contrast `json:"cost,omitempty"` // US dollars
}

// Contrast compares a figure of two runs over the tasks that have it in both. Each task has
// the same weight, regardless of its number of trials.
//
// The interval is that of the mean over tasks, which are treated as a random sample of all
// possible tasks. Trials of one task are not independent, and contribute by the figure of
// the task. With a single task, the sample is its trials.
type Contrast struct {
	Tasks  int     `json:"tasks"`
	Before float64 `json:"before"` // mean over tasks
	After  float64 `json:"after"`  // mean over tasks
	// Difference is After minus Before, for pass rates: from -1 to 1.
	Difference *Interval `json:"difference,omitempty"`
	// Ratio is After divided by Before, for other figures; nil with fewer than two tasks.
	Ratio   *Interval `json:"ratio,omitempty"`
	Finding Finding   `json:"finding"`
	Few     bool      `json:"too_few_trials,omitempty"` // if there is one task: as in [Difference]
}

func pair(base, run ComparedRun) Pair {
	p := Pair{Run: run.Run, Against: base.Run}
	var shared []both
	for _, t := range sideBySide(base, run) {
		switch {
		case t.shared():
			shared = append(shared, t)
		case t.before.Trials > 0:
			p.Missing++
		case t.after.Trials > 0:
			p.Added++
		}
	}
	p.Tasks = len(shared)
	p.PassRate = passRates(shared)
	p.Duration = ratioOf(shared, func(t ComparedTask) *float64 { return t.MedianDurationMS })
	p.Tokens = ratioOf(shared, func(t ComparedTask) *float64 { return t.Tokens })
	p.Cost = ratioOf(shared, func(t ComparedTask) *float64 { return t.Cost })
	return p
}

// passRates contrasts pass rates; it returns nil if there are no tasks. The interval of the mean difference
// is Student's over the tasks' differences, as in Miller ("Adding Error Bars to Evals", 2024: paired
// differences, with questions as clusters), and Wilson's if these do not vary; see [Estimate]. For a single
// task it is Newcombe's.
func passRates(tasks []both) *Contrast {
	if len(tasks) == 0 {
		return nil
	}
	c := &Contrast{Tasks: len(tasks)}
	var halves [][]float64 // differences, mapped from -1..1 to 0..1
	for _, t := range tasks {
		before, after := t.before.PassRate.Mean, t.after.PassRate.Mean
		c.Before, c.After = c.Before+before/float64(len(tasks)), c.After+after/float64(len(tasks))
		halves = append(halves, []float64{(after - before + 1) / 2})
	}
	if len(tasks) == 1 {
		c.Difference, c.Finding = newcombe(tasks[0].before, tasks[0].after)
		c.Few = tasks[0].thin()
		return c
	}
	half := estimate(halves).Interval
	c.Difference = &Interval{Lower: 2*half.Lower - 1, Upper: 2*half.Upper - 1, Mean: 2*half.Mean - 1, ConfidenceLevel: confidence}
	c.Finding = findingOf(c.Difference, 0)
	return c
}

// ratioOf compares a figure by the ratio of its means over tasks; smaller is better. It returns nil if no
// task has the figure in both runs, or if a mean is 0. The interval is Student's for the logarithm of the
// ratio, with the usual approximation of its variance over pairs (Cochran, Sampling Techniques, 1977, 6.3).
func ratioOf(tasks []both, figure func(ComparedTask) *float64) *Contrast {
	var before, after []float64
	for _, t := range tasks {
		if b, a := figure(t.before), figure(t.after); b != nil && a != nil {
			before, after = append(before, *b), append(after, *a)
		}
	}
	c := &Contrast{Tasks: len(before), Before: mean(before), After: mean(after), Finding: NoDifference}
	if c.Before == 0 || c.After == 0 {
		return nil
	}
	if c.Tasks > 1 {
		c.Ratio = ratio(before, after)
		c.Finding = findingOf(c.Ratio, 1).reversed()
	}
	return c
}

// ratio returns the ratio of the means of paired values; there must be at least two. It returns nil if the
// ratio is out of range.
func ratio(before, after []float64) *Interval {
	b, a := mean(before), mean(after)
	var squares float64
	for i := range before {
		off := after[i]/a - before[i]/b
		squares += off * off
	}
	n := float64(len(before))
	half := student(0.5+confidence/2, len(before)-1) * math.Sqrt(squares/(n*(n-1)))
	middle := math.Log(a) - math.Log(b)
	if math.Abs(middle) > maxLogRatio {
		return nil
	}
	half = min(half, maxLogRatio)
	return &Interval{Lower: math.Exp(middle - half), Upper: math.Exp(middle + half), Mean: math.Exp(middle), ConfidenceLevel: confidence}
}

// maxLogRatio keeps ratios and their intervals in the range of float64.
const maxLogRatio = 100

// Finding describes in words what a difference shows.
type Finding string

// Findings. NoDifference does not mean that the runs are equal, only that chance may explain the difference.
const (
	Better       Finding = "better"
	Worse        Finding = "worse"
	NoDifference Finding = "no difference shown"
)

// Shown reports whether the difference is significant.
func (f Finding) Shown() bool { return f == Better || f == Worse }

// findingOf returns the finding for an interval of a figure for which more is better. It is NoDifference if
// the interval is nil or contains none, the value of no difference.
func findingOf(i *Interval, none float64) Finding {
	switch {
	case i == nil:
		return NoDifference
	case i.Lower > none:
		return Better
	case i.Upper < none:
		return Worse
	}
	return NoDifference
}

// reversed returns the finding for a figure for which less is better.
func (f Finding) reversed() Finding {
	switch f {
	case Better:
		return Worse
	case Worse:
		return Better
	}
	return f
}
