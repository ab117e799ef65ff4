// Package github writes a run for GitHub: as a comment for a pull request, which may compare
// runs, or as annotations for GitHub Actions, which GitHub shows next to the files.
//
// In a comment, untrusted text is always shown as code, where GitHub creates no links for URLs,
// names, issue numbers and commit digests, and shows no images or emoji. Everything in it that
// Markdown or HTML could interpret is written as character references, so that it stays a
// single piece of code, table cell or line. A comment stays within GitHub's size limit;
// what does not fit is counted. In an annotation, untrusted text is escaped so that it cannot
// leave it.
//
// The package uses results only and is deterministic.
package github

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
)

// Space for the parts of a comment, in bytes. GitHub accepts 65,536 characters in total.
const (
	roomTasks    = 20 << 10
	roomFailures = 24 << 10
	roomServers  = 8 << 10

	// for a comparison
	roomChanges = 16 << 10
	roomPairs   = 8 << 10
	roomUnlike  = 8 << 10
	roomRuns    = 12 << 10
	roomMarks   = 12 << 10
)

// page is a comment being built.
type page struct{ strings.Builder }

func (p *page) printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

func (p *page) writeTo(w io.Writer) error {
	_, err := io.WriteString(w, p.String())
	return err
}

// fill writes as many of n pieces as fit, and returns how many are left.
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

// column is a column of a table; figures are right-aligned.
type column struct {
	title   string
	figures bool
}

// table writes as many rows of a table as fit, and the number of others. Columns that are empty in every row
// are omitted.
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

// folded writes a collapsed section.
func (p *page) folded(summary string, write func()) {
	p.printf("<details><summary>%s</summary>\n\n", summary)
	write()
	p.WriteString("</details>\n\n")
}

// maxName is the maximum length of a name, in columns.
const maxName = 80

// code returns an untrusted single-line text as code.
func code(s string) string {
	return "<code>" + escaped(text.Line(s, maxName)) + "</code>"
}

// pre returns an untrusted multi-line text, of at most most bytes before escaping, as
// complete lines of preformatted text.
func pre(s string, most int) string {
	shown, isCut := text.Lines(strings.TrimSpace(s), most)
	if isCut {
		shown += " …"
	}
	return "<pre>" + escaped(shown) + "</pre>\n"
}

// harmless lists the ASCII characters, in addition to letters and digits, that have no
// meaning within a line to Markdown, HTML or GitHub.
const harmless = " \n,;.-()/+=%?'\""

// escaped escapes s for code in Markdown and in HTML blocks. A character reference is text
// to both, never markup. URLs are broken by escaping their punctuation. The text is split
// after each @, since mail addresses are detected even in text.
func escaped(s string) string {
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

// isMarkOfProse reports whether the character at i has no special meaning in its context: an underscore
// within a word, or a colon followed by a space.
func isMarkOfProse(s string, i int) bool {
	switch {
	case i == 0 || i+1 == len(s) || !isWord(rune(s[i-1])):
		return false
	case s[i] == '_':
		return isWord(rune(s[i+1]))
	}
	return s[i] == ':' && s[i+1] == ' '
}
