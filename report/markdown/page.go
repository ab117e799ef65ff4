package markdown

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
)

// Room of the parts of a comment, in bytes. GitHub takes 65,536 characters in all.
const (
	roomTasks    = 20 << 10
	roomFailures = 24 << 10
	roomServers  = 8 << 10

	// and of a comparison
	roomChanges = 16 << 10
	roomPairs   = 8 << 10
	roomUnlike  = 8 << 10
	roomRuns    = 12 << 10
	roomMarks   = 12 << 10
)

// page is a comment as it is made.
type page struct{ strings.Builder }

func (p *page) printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

func (p *page) writeTo(w io.Writer) error {
	_, err := io.WriteString(w, p.String())
	return err
}

// fill writes as many of n pieces as there is room for, one after another, and says how
// many are left.
func (p *page) fill(room, n int, piece func(i int) string) (left int) {
	for i := range n {
		text := piece(i)
		if len(text) > room {
			return n - i
		}
		room -= len(text)
		p.WriteString(text)
	}
	return 0
}

// column is one of a table; figures are set to the right.
type column struct {
	title   string
	figures bool
}

// table writes a table, as far as there is room, and how many rows more there are.
// Columns in which no row tells anything are left out.
func (p *page) table(room int, columns []column, rows [][]string, what string) {
	if len(rows) == 0 {
		return
	}
	var titles, marks []string
	var shown []int
	for i, c := range columns {
		if !slices.ContainsFunc(rows, func(row []string) bool { return row[i] != "" && row[i] != view.Unknown }) {
			continue
		}
		mark := ":--"
		if c.figures {
			mark = "--:"
		}
		titles, marks, shown = append(titles, c.title), append(marks, mark), append(shown, i)
	}
	p.WriteString(cells(titles) + cells(marks))
	left := p.fill(room, len(rows), func(n int) string {
		row := make([]string, len(shown))
		for i, column := range shown {
			row[i] = rows[n][column]
		}
		return cells(row)
	})
	p.WriteString("\n")
	if left > 0 {
		p.printf("%s more.\n\n", text.Count(left, what))
	}
}

func cells(all []string) string { return "| " + strings.Join(all, " | ") + " |\n" }

// folded writes what is to be opened before it is read. What it begins, it ends.
func (p *page) folded(summary string, write func()) {
	p.printf("<details><summary>%s</summary>\n\n", summary)
	write()
	p.WriteString("</details>\n\n")
}
