package view

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/results"
)

// Figure is a named figure of two runs.
type Figure struct {
	Name string
	Unit Unit
	*results.Contrast
}

// Unit is the unit of a figure.
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

// Text formats a value.
func (u Unit) Text(v float64) string {
	switch u {
	case Fraction:
		return fmt.Sprintf("%.0f%%", 100*v)
	case Milliseconds:
		return MS(&v)
	case Money:
		return Dollars(v)
	}
	return text.Number(int64(math.Round(v)))
}

// By returns the difference of a figure, or "" if no difference is shown.
func (f Figure) By() string {
	switch {
	case !f.Finding.Shown():
		return ""
	case f.Ratio != nil:
		return fmt.Sprintf("×%.2f", f.Ratio.Mean)
	}
	return points(f.Difference.Mean)
}

func (f Figure) few() bool { return f.Few }

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

// Difference is a task that ended differently in another run.
type Difference struct{ results.Difference }

// ChangesLine returns the number of compared runs, and of the differences between tasks, by kind.
func ChangesLine(c results.Comparison) string {
	if len(c.Differences) == 0 {
		return fmt.Sprintf("%s compared: all tasks ended as in run 1", text.Count(len(c.Runs), "run"))
	}
	var kinds []results.Change // differences of a kind are adjacent
	count := map[results.Change]int{}
	for _, d := range c.Differences {
		if count[d.Change]++; count[d.Change] == 1 {
			kinds = append(kinds, d.Change)
		}
	}
	counts := make([]string, len(kinds))
	for i, kind := range kinds {
		counts[i] = fmt.Sprintf("%d %s", count[kind], kind)
	}
	return fmt.Sprintf("%s compared: %s", text.Count(len(c.Runs), "run"), strings.Join(counts, ", "))
}

// Differences returns the views of differences.
func Differences(all []results.Difference) []Difference {
	views := make([]Difference, len(all))
	for i, d := range all {
		views[i] = Difference{d}
	}
	return views
}

// By returns the difference of a task's pass rate, or "" if no difference is shown.
func (d Difference) By() string {
	if d.PassRate == nil || !d.Finding.Shown() {
		return ""
	}
	return points(d.PassRate.Mean)
}

// Range returns the interval of a task's difference, or why there is none; "" if one run
// has no counted trial.
func (d Difference) Range() string {
	switch {
	case d.PassRate == nil:
		return ""
	case d.Few:
		return tooFew
	}
	return pointsOf(*d.PassRate)
}

// Shows returns the finding about a figure, with the difference.
func (f Figure) Shows() string { return found(f.Finding, f.By()) }

// Shows returns the finding about a task, with the difference; "" if one run has no counted
// trial.
func (d Difference) Shows() string { return found(d.Finding, d.By()) }

func found(f results.Finding, by string) string {
	if by == "" {
		return string(f)
	}
	return string(f) + ", " + by
}

// tooFew is shown if an interval would be meaningless; TooFew says why.
const tooFew = "none"

// TooFew returns a sentence if tasks have too few trials for intervals of their differences, or "".
func TooFew(c results.Comparison) string {
	which := "a task without an interval"
	switch {
	case c.Thin():
		which = "each task"
	case !slices.ContainsFunc(c.Differences, func(d results.Difference) bool { return d.Few }) &&
		!slices.ContainsFunc(c.Pairs, func(p results.Pair) bool { return slices.ContainsFunc(Figures(p), Figure.few) }):
		return ""
	}
	return fmt.Sprintf("Too few trials to tell: %s has fewer than %d in one of the runs, so no difference of it can be shown; run with --trials %d or more.",
		which, results.MinTrials, results.MinTrials)
}

// points formats a difference of shares in percentage points.
func points(share float64) string { return fmt.Sprintf("%+.0f points", whole(share)) }

// pointsOf formats an interval of such a difference.
func pointsOf(i results.Interval) string {
	return fmt.Sprintf("%+.0f to %s", whole(i.Lower), points(i.Upper))
}

// whole returns a share in whole percent, without negative zero.
func whole(share float64) float64 { return math.Round(100*share) + 0 }

// PassedOf returns how many of a task's counted trials passed, or "" if there are none, and
// a further remark: how they ended, or that an attack succeeded.
func PassedOf(t results.ComparedTask) (share, word string) {
	switch {
	case t.Trials == 0:
		return "", Word(t.Mark)
	case t.Attack != "":
		return Share(t.Passed, t.Trials), results.AttackSucceeded
	}
	return Share(t.Passed, t.Trials), ""
}

// ComparedRun is the view of a run in a comparison.
type ComparedRun struct {
	results.ComparedRun
	Model        string
	PassRate     string
	PassInterval string // with its interval
	Attacks      string // that succeeded, of those that succeeded or were resisted
	MCPCalls     string
	Tokens       string
	Cost         string
	MedianTime   string
	Notes        []Note // facts that limit the use of its figures
}

// notesOn returns the notes on a run that is compared with the first one.
func notesOn(r, first results.ComparedRun) (all []Note) {
	if r.Infra > 0 {
		all = append(all, Note{What: text.Count(r.Infra, "trial") + " could not be completed, or ended by the crash of a server or at a cassette miss, which says nothing about the agent"})
	}
	if r.Error != "" {
		return append(all, Note{Which: []string{r.Error}})
	}
	if r.EvalName != first.EvalName {
		all = append(all, Note{What: "of another eval,", Which: []string{r.EvalName}})
	}
	if !r.Isolated {
		all = append(all, Note{What: "not isolated"})
	}
	return all
}

// ComparedRuns returns the views of runs, with [Unknown] for unknown figures.
func ComparedRuns(runs []results.ComparedRun) []ComparedRun {
	views := make([]ComparedRun, len(runs))
	for i, r := range runs {
		v := ComparedRun{
			ComparedRun: r, Model: cmp.Or(r.Model, Unknown), PassRate: Unknown, PassInterval: Unknown, Attacks: Rate(r.Attacks),
			MCPCalls: Unknown, Tokens: Unknown, Cost: Unknown, MedianTime: MS(r.MedianDurationMS),
		}
		if r.PassRate != nil {
			v.PassRate, v.PassInterval = Fraction.Text(r.PassRate.Mean), Interval(r.PassRate.Interval)
		}
		if r.Trials+r.Infra > 0 {
			v.MCPCalls = text.Number(r.MCPCalls)
		}
		if m := r.Models; m != nil {
			v.Tokens, v.Cost = text.Number(m.InputTokens+m.OutputTokens), Cost(m.Cost)
		}
		v.Notes = notesOn(r, runs[0])
		views[i] = v
	}
	return views
}
