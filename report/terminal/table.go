// Package terminal formats runs for a terminal: tables, why trials did not pass, and the
// conversation of a trial.
//
// The output contains untrusted text. It is stripped of terminal control sequences, and
// multi-line text is indented so that it cannot look like output of waza.
package terminal

import (
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
)

// Paint returns the function that styles text about something with the given state.
func Paint(style Style, state view.State) func(string) string {
	switch state {
	case view.Good:
		return style.Good
	case view.Void, view.Doubtful:
		return style.Doubtful
	case view.Bad:
		return style.Bad
	}
	return func(text string) string { return text }
}

// column is a column of a table. All columns have the same number of cells.
type column struct {
	title string
	words bool // left-aligned
	cells []string
}

func (c column) width() int {
	widest := text.Columns(c.title)
	for _, cell := range c.cells {
		widest = max(widest, text.Columns(cell))
	}
	return widest
}

// minTask is the minimum width to which a column of names is shortened.
const minTask = 12

// fitted returns columns with the column at an index shortened, as far as possible, so that the table fits in
// width. A width of 0 or less is unlimited.
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

// columnsOf returns left-aligned columns given titles and rows.
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

// figures right-aligns some columns.
func figures(columns []column, some ...int) []column {
	for _, i := range some {
		columns[i].words = false
	}
	return columns
}

// tableOf returns a table with a line of titles.
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

// cell returns the cell of a row, padded to width. Row -1 is the title.
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

// columnsWidth returns the width of a table.
func columnsWidth(columns []column) int {
	all := len("  ") * (len(columns) - 1)
	for _, c := range columns {
		all += c.width()
	}
	return all
}

// tableWithin returns a table of at most width terminal columns: trailing columns that do
// not fit are omitted, which the header indicates, and then the first is shortened.
func tableWithin(columns []column, width int) string {
	shown, more := roomy(columns, width)
	table := tableOf(fitted(shown, 0, width-text.Columns(more)))
	return strings.Replace(table, "\n", more+"\n", 1)
}

// roomy returns the columns that fit if the first one is as short as possible, and a suffix for the header if
// columns were omitted.
func roomy(columns []column, width int) (shown []column, more string) {
	least := func() int {
		return min(columns[0].width(), minTask) + columnsWidth(columns) - columns[0].width() + text.Columns(more)
	}
	for width > 0 && len(columns) > 1 && least() > width {
		columns, more = columns[:len(columns)-1], " …"
	}
	return columns, more
}

// wrap arranges phrases in lines of at most width columns, if each of them fits.
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
