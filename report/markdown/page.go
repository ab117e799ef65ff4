// Package markdown writes a run, or a comparison of several, as a comment for a pull
// request.
//
// Texts of strangers are shown as code, and in no other way: in code, GitHub makes no
// links of addresses, names, numbers of issues and digests of commits, and draws neither
// pictures nor emoji. All that Markdown or HTML could read in them is written as character
// references, so that they stay one piece of code, one cell of a table, one line. A
// comment is shorter than GitHub's limit; what has no room is counted.
//
// It computes from results alone: the same ones give the same bytes.
package markdown

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/waza-isolate/waza/internal/defence"
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
// Columns that are empty in every row are left out.
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

// maxName is how many columns of a name are shown.
const maxName = 80

// code returns a stranger's text of one line as code.
func code(s string) string {
	return "<code>" + escaped(text.Line(s, maxName)) + "</code>"
}

// pre returns a stranger's text of several lines, of so many bytes at most before it is
// escaped. It begins and ends its lines.
func pre(s string, most int) string {
	shown, isCut := text.Lines(strings.TrimSpace(s), most)
	if isCut {
		shown += " …"
	}
	return "<pre>" + escaped(shown) + "</pre>\n"
}

// harmless are characters of ASCII that mean nothing to Markdown, HTML or GitHub within a
// line, in addition to letters and digits.
const harmless = " \n,;.-()/+=%?'\""

// escaped returns s for code in Markdown and in blocks of HTML. A character reference is text
// to both, never a mark. What looks like an address has none of its marks as they are, and
// behind each @ the text is broken, since addresses of mail are looked for in text.
func escaped(s string) string {
	if !defence.EscapedMarkdown {
		return s
	}
	var out strings.Builder
	for i, r := range s {
		switch {
		case r == '@':
			out.WriteString("&#64;<!-- -->")
		case r >= utf8.RuneSelf, isWord(r), strings.ContainsRune(harmless, r) && !endsWWW(s[:i+1]), isMarkOfProse(s, i):
			out.WriteRune(r)
		default:
			fmt.Fprintf(&out, "&#%d;", r)
		}
	}
	return out.String()
}

func isWord(r rune) bool { return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

func endsWWW(s string) bool { return strings.HasSuffix(s, "w.") || strings.HasSuffix(s, "W.") }

// isMarkOfProse reports whether the character at i stands where it marks nothing, as it often
// does: an underscore within a word, or a colon with a space behind it.
func isMarkOfProse(s string, i int) bool {
	switch {
	case i == 0 || i+1 == len(s) || !isWord(rune(s[i-1])):
		return false
	case s[i] == '_':
		return isWord(rune(s[i+1]))
	}
	return s[i] == ':' && s[i+1] == ' '
}
