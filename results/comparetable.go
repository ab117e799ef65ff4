package results

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/text"
)

// maxMarks is how many tasks have a column of their own where width is no limit.
const maxMarks = 12

// Table writes a line for each run: its trials that passed and all that count, attacks
// that succeeded and those that were decided, how each
// task ended where width has room for that, MCP calls, tokens and cost of models, and
// the median of agents' times. Columns that no run has a figure for are left out. Then
// it says what is missing, and where each run's results are. A width of 0 is no limit.
func (c Comparison) Table(w io.Writer, width int) error {
	marks := c.marks()
	columns := slices.Concat(c.who(), marks, c.figures())
	hidden := width > 0 && columnsWidth(columns) > width || len(marks) > maxMarks
	if hidden {
		columns = slices.Concat(c.who(), c.figures())
	}
	var out strings.Builder
	out.WriteString(tableOf(columns))
	if hidden && len(marks) > 0 {
		fmt.Fprintf(&out, "%d tasks have no room here; --format json has them\n", len(marks))
	}
	for _, r := range c.Runs {
		out.WriteString(r.notes())
	}
	_, err := io.WriteString(w, text.InertLines(out.String()))
	return err
}

// who are the columns that tell runs apart, and how they went.
func (c Comparison) who() []column {
	return known([]column{
		c.column("RUN", false, func(r ComparedRun) string { return fmt.Sprint(r.Run) }),
		c.column("AGENT", true, func(r ComparedRun) string { return r.Agent }),
		c.column("MODEL", true, func(r ComparedRun) string { return cmp.Or(r.Model, unknown) }),
		c.column("PASSED", false, func(r ComparedRun) string { return share(r.Passed, r.Trials) }),
		c.column("RATE", false, func(r ComparedRun) string {
			if r.PassRate == nil {
				return unknown
			}
			return fmt.Sprintf("%.0f%%", 100*r.PassRate.Mean)
		}),
		c.column("ATTACKS", false, func(r ComparedRun) string {
			if r.Attacks == nil {
				return unknown
			}
			return share(r.Attacks.Count, r.Attacks.Of)
		}),
	})
}

// marks is a column for each task of any run.
func (c Comparison) marks() (columns []column) {
	runs := make([]tasksByID, len(c.Runs))
	for i, run := range c.Runs {
		runs[i] = byID(run.Tasks)
	}
	for n, id := range c.TaskIDs() {
		marks := column{title: id, words: true}
		for i := range runs {
			if n < maxMarks {
				marks.cells = append(marks.cells, runs[i].task(id).Mark)
			}
		}
		columns = append(columns, marks)
	}
	return columns
}

// figures are the columns of what the runs took.
func (c Comparison) figures() []column {
	return known([]column{
		c.column("MCP CALLS", false, func(r ComparedRun) string {
			if r.Trials+r.Infra == 0 {
				return unknown
			}
			return fmt.Sprint(r.MCPCalls)
		}),
		c.column("TOKENS", false, func(r ComparedRun) string {
			if r.Models == nil {
				return unknown
			}
			return fmt.Sprint(r.Models.InputTokens + r.Models.OutputTokens)
		}),
		c.column("COST", false, func(r ComparedRun) string {
			if r.Models == nil || r.Models.Cost == nil {
				return unknown
			}
			return Dollars(*r.Models.Cost)
		}),
		c.column("MEDIAN TIME", false, func(r ComparedRun) string {
			if r.MedianDurationMS == nil {
				return unknown
			}
			return Milliseconds.Text(*r.MedianDurationMS)
		}),
	})
}

func (c Comparison) column(title string, words bool, cell func(ComparedRun) string) column {
	out := column{title: title, words: words}
	for _, r := range c.Runs {
		out.cells = append(out.cells, cell(r))
	}
	return out
}

// known are the columns that tell something.
func known(columns []column) []column {
	return slices.DeleteFunc(columns, func(column column) bool {
		return !slices.ContainsFunc(column.cells, func(cell string) bool { return cell != unknown })
	})
}

func share(count, of int) string { return fmt.Sprintf("%d/%d", count, of) }

// notes says, a line for each, what the table does not.
func (r ComparedRun) notes() string {
	var out strings.Builder
	note := func(format string, args ...any) {
		fmt.Fprintf(&out, "run %d: %s\n", r.Run, fmt.Sprintf(format, args...))
	}
	if r.Infra > 0 {
		note("%d trials ended as infra, and count for nothing", r.Infra)
	}
	if r.Error != "" {
		note("%s", r.Error)
	}
	if !r.Isolated && r.Error == "" {
		note("not isolated")
	}
	if r.Path != "" {
		note("results in %s", r.Path)
	}
	return out.String()
}
