package view

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/waza-isolate/waza/results"
)

// Figure is a figure of two runs, by its name.
type Figure struct {
	Name string
	Unit Unit
	*results.Contrast
}

// Unit is what a figure counts.
type Unit int

// Units of figures.
const (
	Fraction Unit = iota // from 0 to 1
	Milliseconds
	Quantity
	Money // US dollars
)

// Figures returns the figures that both runs of a pair have.
func Figures(p results.Pair) (all []Figure) {
	for _, f := range []Figure{
		{"pass rate", Fraction, p.PassRate}, {"median time", Milliseconds, p.Duration}, {"tokens a trial", Quantity, p.Tokens}, {"cost a trial", Money, p.Cost},
	} {
		if f.Contrast != nil {
			all = append(all, f)
		}
	}
	return all
}

// Text returns a value of a figure, as terminals and comments show it.
func (u Unit) Text(v float64) string {
	switch u {
	case Fraction:
		return fmt.Sprintf("%.0f%%", 100*v)
	case Milliseconds:
		return Clock(time.Duration(v * float64(time.Millisecond)))
	case Money:
		return Dollars(v)
	}
	return fmt.Sprintf("%.0f", v)
}

// By returns how much a figure differs; empty where no difference is shown.
func (f Figure) By() string {
	switch {
	case !f.Finding.Shown():
		return ""
	case f.Ratio != nil:
		return fmt.Sprintf("×%.2f", f.Ratio.Mean)
	}
	return points(f.Difference.Mean)
}

// Range returns the interval of a figure's difference, or why there is none.
func (f Figure) Range() string {
	switch {
	case f.Few:
		return tooFew
	case f.Ratio != nil:
		return fmt.Sprintf("×%.2f to ×%.2f", f.Ratio.Lower, f.Ratio.Upper)
	case f.Difference != nil:
		return pointsOf(*f.Difference)
	}
	return "none: 1 task"
}

// Difference is how a task went otherwise than in another run.
type Difference struct{ results.Difference }

// Differences returns the views of differences.
func Differences(all []results.Difference) []Difference {
	views := make([]Difference, len(all))
	for i, d := range all {
		views[i] = Difference{d}
	}
	return views
}

// By returns how much a task's pass rate differs; empty where no difference is shown.
func (d Difference) By() string {
	if d.PassRate == nil || !d.Finding.Shown() {
		return ""
	}
	return points(d.PassRate.Mean)
}

// Range returns the interval of a task's difference, or why there is none; empty where one run
// has no trial that counts.
func (d Difference) Range() string {
	switch {
	case d.PassRate == nil:
		return ""
	case d.Few:
		return tooFew
	}
	return pointsOf(*d.PassRate)
}

// Shows says what a figure's difference shows, and by how much.
func (f Figure) Shows() string { return finding(f.Finding, f.By()) }

// Shows says what a task's difference shows, and by how much; empty where one run has no
// trial that counts.
func (d Difference) Shows() string { return finding(d.Finding, d.By()) }

func finding(f results.Finding, by string) string {
	if by == "" {
		return string(f)
	}
	return string(f) + ", " + by
}

// tooFew stands where an interval is not worth its name.
const tooFew = "none: too few trials"

// TooFew says in a sentence that a comparison has too few trials of each task; empty where it does
// not.
func TooFew(c results.Comparison) string {
	if !c.Thin() {
		return ""
	}
	return fmt.Sprintf("Too few trials: each task has fewer than %d in one of the runs, so no difference of a task can be shown; run with --trials %d or more.", results.MinTrials, results.MinTrials)
}

// points returns a difference of shares in points of a hundred.
func points(share float64) string { return fmt.Sprintf("%+.0f points", whole(share)) }

// pointsOf returns an interval of such a difference.
func pointsOf(i results.Interval) string {
	return fmt.Sprintf("%+.0f to %s", whole(i.Lower), points(i.Upper))
}

// whole returns a share in whole hundredths, of which 0 has no minus.
func whole(share float64) float64 { return math.Round(100*share) + 0 }

// PassedOf returns how many of a task's trials that count passed, which is empty where none does,
// and what else is to be said of them: how they ended, or that an attack succeeded.
func PassedOf(t results.ComparedTask) (share, word string) {
	switch {
	case t.Trials == 0:
		return "", t.Mark
	case t.Attack != "":
		return Share(t.Passed, t.Trials), results.AttackSucceeded
	}
	return Share(t.Passed, t.Trials), ""
}

// ComparedRun is a run among others, in texts.
type ComparedRun struct {
	results.ComparedRun
	Model        string
	PassRate     string
	PassInterval string // that with its interval
	Attacks      string // that succeeded, of those that succeeded or were resisted
	MCPCalls     string
	Tokens       string
	Cost         string
	MedianTime   string
}

// ComparedRuns returns the views of runs, with [Unknown] for what is not known of a run.
func ComparedRuns(runs []results.ComparedRun) []ComparedRun {
	views := make([]ComparedRun, len(runs))
	for i, r := range runs {
		v := ComparedRun{
			ComparedRun: r, Model: cmp.Or(r.Model, Unknown), PassRate: Unknown, PassInterval: Unknown, Attacks: Rate(r.Attacks),
			MCPCalls: Unknown, Tokens: Unknown, Cost: Unknown, MedianTime: Unknown,
		}
		if r.PassRate != nil {
			v.PassRate, v.PassInterval = Fraction.Text(r.PassRate.Mean), Interval(r.PassRate.Interval)
		}
		if r.Trials+r.Infra > 0 {
			v.MCPCalls = fmt.Sprint(r.MCPCalls)
		}
		if m := r.Models; m != nil {
			v.Tokens, v.Cost = fmt.Sprint(m.InputTokens+m.OutputTokens), Cost(m.Cost)
		}
		if r.MedianDurationMS != nil {
			v.MedianTime = Milliseconds.Text(*r.MedianDurationMS)
		}
		views[i] = v
	}
	return views
}
