package results

import "math"

// Pair is a further run held against the first, over the tasks that both have. A task
// without a trial that counts is none.
type Pair struct {
	Run     int `json:"run"`
	Against int `json:"against"`
	Tasks   int `json:"tasks"`             // that both have
	Missing int `json:"missing,omitempty"` // tasks that the first alone has
	Added   int `json:"added,omitempty"`   // tasks that this one alone has
	// Unlike is what was another in this run, so that the difference may be its.
	Unlike   []Unlike  `json:"unlike,omitempty"`
	PassRate *Contrast `json:"pass_rate,omitempty"` // share of a task's trials that pass
	Duration *Contrast `json:"duration_ms,omitempty"`
	Tokens   *Contrast `json:"tokens,omitempty"`
	Cost     *Contrast `json:"cost,omitempty"` // US dollars
}

// Contrast is a figure of two runs over the tasks that tell it in both; each task counts
// as much as any other, however many trials it has.
//
// The interval is of the mean over tasks, so it takes these for a sample of all that
// could be asked, with differences that spread alike; trials of one task are alike and
// count through its own figure. With one task alone, the sample is its trials.
type Contrast struct {
	Tasks  int     `json:"tasks"`
	Before float64 `json:"before"` // mean over tasks
	After  float64 `json:"after"`  // likewise
	// Difference of pass rates is After less Before, from -1 to 1.
	Difference *Interval `json:"difference,omitempty"`
	// Ratio of other figures is After over Before; nil with fewer than two tasks.
	Ratio   *Interval `json:"ratio,omitempty"`
	Finding Finding   `json:"finding"`
	Few     bool      `json:"too_few_trials,omitempty"` // of the one task, as [Difference] has it
}

func pair(base, run ComparedRun) Pair {
	p := Pair{Run: run.Run, Against: base.Run}
	var shared []both
	later, earlier := byID(run.Tasks), byID(base.Tasks)
	for _, before := range base.Tasks {
		switch after := later.task(before.ID); {
		case before.Trials > 0 && after.Trials > 0:
			shared = append(shared, both{before, after})
		case before.Trials > 0:
			p.Missing++
		}
	}
	for _, after := range run.Tasks {
		if after.Trials > 0 && earlier.task(after.ID).Trials == 0 {
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

// both is a task in two runs.
type both struct{ before, after ComparedTask }

// passRates is nil without tasks. The interval of the mean difference is Student's over
// the tasks' differences, as Miller has it ("Adding Error Bars to Evals", 2024: paired
// differences, with questions that are clusters), and Wilson's where these do not
// spread; see [Estimate]. Of one task it is Newcombe's.
func passRates(tasks []both) *Contrast {
	if len(tasks) == 0 {
		return nil
	}
	c := &Contrast{Tasks: len(tasks)}
	var halves [][]float64 // differences, brought from -1..1 to 0..1
	for _, t := range tasks {
		before, after := t.before.PassRate.Mean, t.after.PassRate.Mean
		c.Before, c.After = c.Before+before/float64(len(tasks)), c.After+after/float64(len(tasks))
		halves = append(halves, []float64{(after - before + 1) / 2})
	}
	if len(tasks) == 1 {
		c.Difference, c.Finding = newcombe(tasks[0].before, tasks[0].after)
		c.Few = thin(tasks[0].before, tasks[0].after)
		return c
	}
	half := estimate(halves).Interval
	c.Difference = &Interval{Lower: 2*half.Lower - 1, Upper: 2*half.Upper - 1, Mean: 2*half.Mean - 1, ConfidenceLevel: confidence}
	c.Finding = findingOf(c.Difference, 0)
	return c
}

// ratioOf is how a figure's mean over tasks differs, of which less is better. It is nil
// where no task tells it in both, or one mean is 0. The interval is Student's around the
// logarithm of the ratio, by the usual approximation of its variance over pairs
// (Cochran, Sampling Techniques, 1977, 6.3).
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

// ratio is of the mean of two values or more to that of as many others, in pairs; nil
// where it is beyond all measure.
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

// maxLogRatio keeps ratios and their intervals within what a number can hold.
const maxLogRatio = 100
