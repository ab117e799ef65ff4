package results

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/text"
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
	_, err := io.WriteString(w, text.InertLines(out.String()))
	return err
}

func (p Pair) head() string {
	var out strings.Builder
	fmt.Fprintf(&out, "run %d against run %d: %s in both\n", p.Run, p.Against, text.Count(p.Tasks, "task"))
	for _, only := range []struct{ tasks, run int }{{p.Missing, p.Against}, {p.Added, p.Run}} {
		if only.tasks > 0 {
			fmt.Fprintf(&out, "left out: %s that only run %d has\n", text.Count(only.tasks, "task"), only.run)
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
	for _, f := range p.Figures() {
		rows = append(rows, []string{f.Name, f.Unit.Text(f.Before), f.Unit.Text(f.After), f.Finding.With(f.By()), f.Range()})
	}
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

// differenceTable has a line for each task that went otherwise, or says that none did.
func differenceTable(differences []Difference, p Pair, width int) string {
	if len(differences) == 0 {
		return fmt.Sprintf("no task went otherwise than in run %d\n", p.Against)
	}
	var rows [][]string
	for _, d := range differences {
		rows = append(rows, []string{string(d.Change), d.Task, d.Before.shareText(), d.After.shareText(), d.Finding.With(d.By()), d.Range()})
	}
	return tableOf(fitted(p.columns([]string{"CHANGE", "TASK"}, rows), 1, width))
}

func (t ComparedTask) shareText() string {
	if t.Trials == 0 {
		return t.Mark
	}
	if t.Attack != "" {
		return share(t.Passed, t.Trials) + ", " + AttackSucceeded
	}
	return share(t.Passed, t.Trials)
}
