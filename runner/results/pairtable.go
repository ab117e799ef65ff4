package results

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/internal/plain"
)

// PairTables writes each further run held against the first: what was not alike, the
// figures over the tasks that both have, and the tasks that went otherwise. Where no
// difference is shown it says so in place of a number. A width of 0 is no limit; else
// tasks' ids are shortened to it, as far as that goes.
func (c Comparison) PairTables(w io.Writer, width int) error {
	var out strings.Builder
	for i, p := range c.Pairs {
		if i > 0 {
			out.WriteByte('\n')
		}
		out.WriteString(p.head() + p.table() + "\n" + differenceTable(c.Of(p), p, width))
	}
	_, err := io.WriteString(w, plain.Text(out.String()))
	return err
}

func (p Pair) head() string {
	var out strings.Builder
	fmt.Fprintf(&out, "run %d against run %d: %s in both\n", p.Run, p.Against, plural(p.Tasks, "task"))
	for _, only := range []struct{ tasks, run int }{{p.Missing, p.Against}, {p.Added, p.Run}} {
		if only.tasks > 0 {
			fmt.Fprintf(&out, "left out: %s that only run %d has\n", plural(only.tasks, "task"), only.run)
		}
	}
	for _, u := range p.Unlike {
		fmt.Fprintf(&out, "not alike: %s: %s, in run %d %s\n", u.What, u.After, p.Against, u.Before)
	}
	return out.String()
}

// table has a line for each figure that both runs have; it is empty where there is none.
func (p Pair) table() string {
	var rows [][]string
	add := func(name string, c *Contrast, text func(float64) string) {
		if c != nil {
			rows = append(rows, []string{name, text(c.Before), text(c.After), c.change(), c.interval()})
		}
	}
	add("pass rate", p.PassRate, func(v float64) string { return fmt.Sprintf("%.0f%%", 100*v) })
	add("median time", p.Duration, func(v float64) string { return clock(time.Duration(v * float64(time.Millisecond))) })
	add("tokens a trial", p.Tokens, func(v float64) string { return fmt.Sprintf("%.0f", v) })
	add("cost a trial", p.Cost, Dollars)
	if len(rows) == 0 {
		return ""
	}
	return "\n" + tableOf(p.columns([]string{"MEAN OVER TASKS"}, rows))
}

// columns are of rows of something in both runs: what it is, by titles, then before,
// after, difference and interval.
func (p Pair) columns(titles []string, rows [][]string) []column {
	before, after := fmt.Sprintf("RUN %d", p.Against), fmt.Sprintf("RUN %d", p.Run)
	columns := columnsOf(slices.Concat(titles, []string{before, after, "DIFFERENCE", "95% INTERVAL"}), rows)
	return figures(columns, len(titles), len(titles)+1)
}

// change is the finding, with the difference where one is shown.
func (c Contrast) change() string {
	switch {
	case !c.Finding.Shown():
		return string(c.Finding)
	case c.Ratio != nil:
		return fmt.Sprintf("%s, ×%.2f", c.Finding, c.Ratio.Mean)
	}
	return fmt.Sprintf("%s, %+.0f points", c.Finding, 100*c.Difference.Mean)
}

func (c Contrast) interval() string {
	switch {
	case c.Few:
		return tooFew
	case c.Ratio != nil:
		return fmt.Sprintf("×%.2f to ×%.2f", c.Ratio.Lower, c.Ratio.Upper)
	case c.Difference != nil:
		return c.Difference.points()
	}
	return "none: 1 task"
}

// tooFew stands where an interval is not worth its name.
const tooFew = "none: too few trials"

// points is an interval of a difference of shares, in points of a hundred.
func (i Interval) points() string {
	return fmt.Sprintf("%+.0f to %+.0f points", 100*i.Lower, 100*i.Upper)
}

// differenceTable has a line for each task that went otherwise, or says that none did.
func differenceTable(differences []Difference, p Pair, width int) string {
	if len(differences) == 0 {
		return fmt.Sprintf("no task went otherwise than in run %d\n", p.Against)
	}
	var rows [][]string
	for _, d := range differences {
		rows = append(rows, []string{string(d.Change), d.Task, d.Before.shareText(), d.After.shareText(), d.change(), d.interval()})
	}
	return tableOf(fitted(p.columns([]string{"CHANGE", "TASK"}, rows), 1, width))
}

func (d Difference) change() string {
	switch {
	case d.PassRate == nil:
		return ""
	case d.Finding.Shown():
		return fmt.Sprintf("%s, %+.0f points", d.Finding, 100*d.PassRate.Mean)
	}
	return string(d.Finding)
}

func (d Difference) interval() string {
	switch {
	case d.PassRate == nil:
		return ""
	case d.Few:
		return tooFew
	}
	return d.PassRate.points()
}

func (t ComparedTask) shareText() string {
	if t.Trials == 0 {
		return t.Mark
	}
	return share(t.Passed, t.Trials)
}
