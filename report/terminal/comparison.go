package terminal

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// maxMarks is the maximum number of tasks with their own column if the width is unlimited.
const maxMarks = 12

// Comparison writes a line for each run: passed and counted trials, successful and decided
// attacks, how each task ended if there is space, MCP calls, tokens and cost of models, and
// the median agent time. Columns without figures are omitted. Then it writes what is
// missing, and where each run's results are. A width of 0 is unlimited.
func Comparison(w io.Writer, c results.Comparison, width int) error {
	marks, runs := marksOf(c), view.ComparedRuns(c.Runs)
	columns := slices.Concat(who(runs), marks, took(runs))
	hidden := width > 0 && columnsWidth(columns) > width || len(marks) > maxMarks
	if hidden {
		columns = slices.Concat(who(runs), took(runs))
	}
	var out strings.Builder
	out.WriteString(tableOf(columns))
	if hidden && len(marks) > 0 {
		fmt.Fprintf(&out, "the columns of %s are left out; --format json has them\n", text.Count(len(marks), "task"))
	}
	for _, r := range runs {
		out.WriteString(notes(r))
	}
	_, err := io.WriteString(w, text.InertLines(out.String()))
	return err
}

// who returns the columns that identify runs, and the columns of their results.
func who(runs []view.ComparedRun) []column {
	var rows [][]string
	for _, r := range runs {
		rows = append(rows, []string{fmt.Sprint(r.Run), r.Agent, r.Model, view.Share(r.Passed, r.Trials), r.PassRate, r.Attacks})
	}
	columns := columnsOf([]string{"RUN", "AGENT", "MODEL", "PASSED", "RATE", "ATTACKS"}, rows)
	return known(figures(columns, 0, 3, 4, 5))
}

// marksOf returns a column for each task of any run.
func marksOf(c results.Comparison) (columns []column) {
	marks := c.Marks()
	for n, id := range c.TaskIDs() {
		column := column{title: id, words: true}
		if n < maxMarks {
			for _, mark := range marks[id] {
				column.cells = append(column.cells, view.Word(mark))
			}
		}
		columns = append(columns, column)
	}
	return columns
}

// took returns the columns of the resources that the runs used.
func took(runs []view.ComparedRun) []column {
	var rows [][]string
	for _, r := range runs {
		rows = append(rows, []string{r.MCPCalls, r.Tokens, r.Cost, r.MedianTime})
	}
	columns := columnsOf([]string{"MCP CALLS", "TOKENS", "COST", "MEDIAN TIME"}, rows)
	return known(figures(columns, 0, 1, 2, 3))
}

// known returns the columns that have a known value.
func known(columns []column) []column {
	return slices.DeleteFunc(columns, func(column column) bool {
		return !slices.ContainsFunc(column.cells, func(cell string) bool { return cell != view.Unknown })
	})
}

// notes returns lines about a run that complement the table.
func notes(r view.ComparedRun) string {
	var out strings.Builder
	for _, note := range r.Notes {
		fmt.Fprintf(&out, "run %d: %s\n", r.Run, noteText(note))
	}
	if r.Path != "" {
		fmt.Fprintf(&out, "run %d: results in %s\n", r.Run, r.Path)
	}
	return out.String()
}

// Pairs writes a comparison of each run with the first one: differing settings, the figures over the tasks
// that both runs have, and the tasks that ended differently. If a difference is not significant, it says so
// and shows no number. A width of 0 is unlimited; otherwise task IDs are shortened to fit, as far as
// possible, and then intervals are omitted, which the header indicates.
func Pairs(w io.Writer, c results.Comparison, width int) error {
	var out strings.Builder
	for i, p := range c.Pairs {
		if i > 0 {
			out.WriteByte('\n')
		}
		out.WriteString(pairHead(p) + pairTable(p) + "\n" + differenceTable(view.Differences(c.Of(p)), p, width))
	}
	if few := view.TooFew(c); few != "" {
		out.WriteString("\n" + few + "\n")
	}
	_, err := io.WriteString(w, text.InertLines(out.String()))
	return err
}

// mostUnlike is the maximum number of listed settings that differ between two runs.
const mostUnlike = 20

func pairHead(p results.Pair) string {
	var out strings.Builder
	fmt.Fprintf(&out, "run %d against run %d: %s in both\n", p.Run, p.Against, text.Count(p.Tasks, "task"))
	for _, only := range []struct{ tasks, run int }{{p.Missing, p.Against}, {p.Added, p.Run}} {
		if only.tasks > 0 {
			fmt.Fprintf(&out, "left out: %s that only run %d has\n", text.Count(only.tasks, "task"), only.run)
		}
	}
	for _, unlike := range text.Some(p.Unlike, mostUnlike, func(u results.Unlike) string {
		return fmt.Sprintf("%s: %s, and %s in run %d", u.What, u.After, u.Before, p.Against)
	}) {
		fmt.Fprintf(&out, "differs: %s\n", unlike)
	}
	return out.String()
}

// pairTable returns a line for each figure that both runs have, or "" if there are none.
func pairTable(p results.Pair) string {
	var rows [][]string
	for _, f := range view.Figures(p) {
		rows = append(rows, []string{f.Name, f.Unit.Text(f.Before), f.Unit.Text(f.After), f.Shows(), f.Range()})
	}
	if len(rows) == 0 {
		return ""
	}
	return "\n" + tableOf(pairColumns(p, []string{"MEAN OVER TASKS"}, rows))
}

// pairColumns returns the columns of a comparison: the compared things, by titles, followed by before, after,
// difference and interval.
func pairColumns(p results.Pair, titles []string, rows [][]string) []column {
	before, after := fmt.Sprintf("RUN %d", p.Against), fmt.Sprintf("RUN %d", p.Run)
	columns := columnsOf(slices.Concat(titles, []string{before, after, "DIFFERENCE", "95% INTERVAL"}), rows)
	return figures(columns, len(titles), len(titles)+1)
}

// differenceTable returns a line for each task that ended differently, or a line that says
// that none did.
func differenceTable(differences []view.Difference, p results.Pair, width int) string {
	if len(differences) == 0 {
		return fmt.Sprintf("all tasks ended as in run %d\n", p.Against)
	}
	var rows [][]string
	for _, d := range differences {
		rows = append(rows, []string{string(d.Change), d.Task, shareText(d.Before), shareText(d.After), d.Shows(), d.Range()})
	}
	columns, more := fitted(pairColumns(p, []string{"CHANGE", "TASK"}, rows), 1, width), ""
	if width > 0 && columnsWidth(columns) > width {
		columns, more = columns[:len(columns)-1], " …"
	}
	return strings.Replace(tableOf(columns), "\n", more+"\n", 1)
}

func shareText(t results.ComparedTask) string {
	share, word := view.PassedOf(t)
	return strings.TrimPrefix(strings.TrimSuffix(share+", "+word, ", "), ", ")
}
