package results

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waza-isolate/waza/internal/plain"
)

// maxMarks is how many tasks have a column of their own where width is no limit.
const maxMarks = 12

// comparedColumn is a column of the table of runs.
type comparedColumn struct {
	title string
	words bool // set to the left
	cells []string
}

func (c comparedColumn) width() int {
	widest := utf8.RuneCountInString(c.title)
	for _, cell := range c.cells {
		widest = max(widest, utf8.RuneCountInString(cell))
	}
	return widest
}

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
	for row := -1; row < len(c.Runs); row++ {
		out.WriteString(line(columns, row) + "\n")
	}
	if hidden && len(marks) > 0 {
		fmt.Fprintf(&out, "%d tasks have no room here; --format json has them\n", len(marks))
	}
	for _, r := range c.Runs {
		out.WriteString(r.notes(c.Runs[0]))
	}
	_, err := io.WriteString(w, plain.Text(out.String()))
	return err
}

// line is a row of the table; -1 is that of titles.
func line(columns []comparedColumn, row int) string {
	var out strings.Builder
	for i, column := range columns {
		cell := column.title
		if row >= 0 {
			cell = column.cells[row]
		}
		pad := strings.Repeat(" ", column.width()-utf8.RuneCountInString(cell))
		if i > 0 {
			out.WriteString("  ")
		}
		if column.words {
			out.WriteString(cell + pad)
		} else {
			out.WriteString(pad + cell)
		}
	}
	return strings.TrimRight(out.String(), " ")
}

func columnsWidth(columns []comparedColumn) int {
	all := len("  ") * (len(columns) - 1)
	for _, column := range columns {
		all += column.width()
	}
	return all
}

// who are the columns that tell runs apart, and how they went.
func (c Comparison) who() []comparedColumn {
	return known([]comparedColumn{
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
func (c Comparison) marks() (columns []comparedColumn) {
	seen := map[string]bool{}
	for _, run := range c.Runs {
		for _, task := range run.Tasks {
			if seen[task.ID] {
				continue
			}
			seen[task.ID] = true
			if len(seen) > maxMarks {
				columns = append(columns, comparedColumn{title: task.ID})
				continue
			}
			columns = append(columns, c.column(task.ID, true, func(r ComparedRun) string { return byID(r.Tasks).task(task.ID).Mark }))
		}
	}
	return columns
}

// figures are the columns of what the runs took.
func (c Comparison) figures() []comparedColumn {
	return known([]comparedColumn{
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
			return fmt.Sprintf("$%.4f", *r.Models.Cost)
		}),
		c.column("MEDIAN TIME", false, func(r ComparedRun) string {
			if r.MedianDurationMS == nil {
				return unknown
			}
			return clock(time.Duration(*r.MedianDurationMS) * time.Millisecond)
		}),
	})
}

func (c Comparison) column(title string, words bool, cell func(ComparedRun) string) comparedColumn {
	column := comparedColumn{title: title, words: words}
	for _, r := range c.Runs {
		column.cells = append(column.cells, cell(r))
	}
	return column
}

// known are the columns that tell something.
func known(columns []comparedColumn) []comparedColumn {
	return slices.DeleteFunc(columns, func(column comparedColumn) bool {
		return !slices.ContainsFunc(column.cells, func(cell string) bool { return cell != unknown })
	})
}

func share(count, of int) string { return fmt.Sprintf("%d/%d", count, of) }

// notes says, a line for each, what the table does not.
func (r ComparedRun) notes(first ComparedRun) string {
	var out strings.Builder
	note := func(format string, args ...any) {
		fmt.Fprintf(&out, "run %d: %s\n", r.Run, fmt.Sprintf(format, args...))
	}
	if r.EvalName != first.EvalName && r.EvalName != "" {
		note("of another eval, %s", r.EvalName)
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

// DifferenceList writes a line for each difference, or one that there is none.
func (c Comparison) DifferenceList(w io.Writer) error {
	var out strings.Builder
	if len(c.Differences) == 0 {
		out.WriteString("no task went otherwise than in run 1\n")
	}
	columns := make([]comparedColumn, 4)
	for i := range columns {
		columns[i].words = true
	}
	for _, d := range c.Differences {
		for i, cell := range []string{fmt.Sprintf("run %d", d.Run), string(d.Change), d.Task, d.figures()} {
			columns[i].cells = append(columns[i].cells, cell)
		}
	}
	for row := range c.Differences {
		out.WriteString(line(columns, row) + "\n")
	}
	_, err := io.WriteString(w, plain.Text(out.String()))
	return err
}

// figures is what of the trials passed in both, and by how many points of a hundred
// that differs.
func (d Difference) figures() string {
	text := fmt.Sprintf("%s, in run %d %s", d.After.shareText(), d.Against, d.Before.shareText())
	if d.PassRate != nil {
		text += fmt.Sprintf("; %+.0f points [%+.0f, %+.0f]", 100*d.PassRate.Mean, 100*d.PassRate.Lower, 100*d.PassRate.Upper)
	}
	return text
}

func (t ComparedTask) shareText() string {
	if t.Trials == 0 {
		return t.Mark
	}
	return share(t.Passed, t.Trials)
}
