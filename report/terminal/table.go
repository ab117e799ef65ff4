// Package terminal writes runs for a terminal: tables, why trials did not pass, and the
// conversation of a trial.
//
// What strangers said is in all of it. It is written without characters that control a
// terminal, and where it has lines of its own they are set in, so that they cannot look
// like ours.
package terminal

import (
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
)

// Paint returns the function that paints an outcome.
func Paint(style Style, class evidence.Class) func(string) string {
	switch class {
	case evidence.ClassPass:
		return style.Good
	case evidence.ClassInfra, evidence.ClassError:
		return style.Doubtful
	}
	return style.Bad
}

// NotIsolated is said wherever a run without --isolate says anything.
const NotIsolated = "nothing was isolated: agents and servers ran as processes of yours"

// column is a column of a table: as many cells as the others have.
type column struct {
	title string
	words bool // set to the left
	cells []string
}

func (c column) width() int {
	widest := text.Columns(c.title)
	for _, cell := range c.cells {
		widest = max(widest, text.Columns(cell))
	}
	return widest
}

// minTask is the least width that a column of names is shortened to.
const minTask = 12

// fitted returns columns of which the one at an index is shortened, as far as that goes, so
// that their table is no wider than width. A width of 0 or less is no limit.
func fitted(columns []column, at, width int) []column {
	over := columnsWidth(columns) - width
	if width <= 0 || over <= 0 {
		return columns
	}
	long := columns[at]
	room := max(long.width()-over, minTask)
	short := column{title: long.title, words: long.words}
	for _, cell := range long.cells {
		short.cells = append(short.cells, text.Fit(cell, room))
	}
	columns = slices.Clone(columns)
	columns[at] = short
	return columns
}

// columnsOf returns columns of words by their titles and rows.
func columnsOf(titles []string, rows [][]string) []column {
	columns := make([]column, len(titles))
	for i, title := range titles {
		columns[i] = column{title: title, words: true}
		for _, row := range rows {
			columns[i].cells = append(columns[i].cells, row[i])
		}
	}
	return columns
}

// figures sets some columns to the right.
func figures(columns []column, some ...int) []column {
	for _, i := range some {
		columns[i].words = false
	}
	return columns
}

// tableOf returns a table of columns, with a line of their titles.
func tableOf(columns []column) string {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = c.width()
	}
	var out strings.Builder
	for row := -1; row < len(columns[0].cells); row++ {
		var line strings.Builder
		for i, c := range columns {
			line.WriteString(c.cell(row, widths[i]) + "  ")
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return out.String()
}

// cell returns a row's cell, padded to width; row -1 has the title.
func (c column) cell(row, width int) string {
	cell := c.title
	if row >= 0 {
		cell = c.cells[row]
	}
	pad := strings.Repeat(" ", width-text.Columns(cell))
	if c.words {
		return cell + pad
	}
	return pad + cell
}

// columnsWidth returns how wide a table of columns is.
func columnsWidth(columns []column) int {
	all := len("  ") * (len(columns) - 1)
	for _, c := range columns {
		all += c.width()
	}
	return all
}

// tableWithin returns a table of at most so many columns of a terminal: the last of its own
// that there is no room for are left out, which the header says, and then the first is
// shortened.
func tableWithin(columns []column, width int) string {
	shown, more := roomy(columns, width)
	table := tableOf(fitted(shown, 0, width-text.Columns(more)))
	return strings.Replace(table, "\n", more+"\n", 1)
}

// roomy returns the columns that there is room for with the first as short as can be, and
// what the header says of others.
func roomy(columns []column, width int) (shown []column, more string) {
	least := func() int {
		return min(columns[0].width(), minTask) + columnsWidth(columns) - columns[0].width() + text.Columns(more)
	}
	for width > 0 && len(columns) > 1 && least() > width {
		columns, more = columns[:len(columns)-1], " …"
	}
	return columns, more
}

// wrap puts phrases on lines of at most width columns, where each of them fits.
func wrap(phrases []string, width int) string {
	var out strings.Builder
	used := 0
	for _, phrase := range phrases {
		long := text.Columns(phrase)
		switch {
		case used == 0:
		case width > 0 && used+len("  ")+long > width:
			out.WriteString("\n")
			used = 0
		default:
			out.WriteString("  ")
			used += len("  ")
		}
		out.WriteString(phrase)
		used += long
	}
	return out.String() + "\n"
}
