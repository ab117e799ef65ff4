package results

import (
	"strings"
	"unicode/utf8"
)

// column is a column of a table: as many cells as the others have.
type column struct {
	title string
	words bool // set to the left
	cells []string
}

func (c column) width() int {
	widest := utf8.RuneCountInString(c.title)
	for _, cell := range c.cells {
		widest = max(widest, utf8.RuneCountInString(cell))
	}
	return widest
}

// shortened has no cell wider than width, or than least and the title where these are
// more.
func (c column) shortened(width, least int) column {
	width = max(width, least, utf8.RuneCountInString(c.title))
	out := column{title: c.title, words: c.words}
	for _, cell := range c.cells {
		out.cells = append(out.cells, shorten(cell, width))
	}
	return out
}

// columnsOf are columns of words by their titles and rows.
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

// tableOf is a table of columns, with a line of their titles.
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

// cell is one of a row, padded to width; row -1 is that of titles.
func (c column) cell(row, width int) string {
	cell := c.title
	if row >= 0 {
		cell = c.cells[row]
	}
	pad := strings.Repeat(" ", width-utf8.RuneCountInString(cell))
	if c.words {
		return cell + pad
	}
	return pad + cell
}

// columnsWidth is how wide a table of columns is.
func columnsWidth(columns []column) int {
	all := len("  ") * (len(columns) - 1)
	for _, c := range columns {
		all += c.width()
	}
	return all
}
