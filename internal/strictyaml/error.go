package strictyaml

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
)

// maxProblems is the maximum number of problems reported per file.
const maxProblems = 100

// Position is a position in a file. Lines and columns count from 1, columns in characters.
// The zero Position stands for the whole file.
type Position struct{ Line, Column int }

// Compare compares two positions in the order of the file.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Line, q.Line), cmp.Compare(p.Column, q.Column))
}

// Error is a problem in a file.
type Error struct {
	File     string
	Position Position
	Message  string // one sentence: what is wrong and how to fix it
	Excerpt  string // lines around the position with a caret, or empty
	Cause    error  // of Document.Error; else nil
}

// Error returns "file:line:column: message" followed by the excerpt.
func (e *Error) Error() string {
	head := e.File + ": " + e.Message
	if e.Position != (Position{}) {
		head = fmt.Sprintf("%s:%d:%d: %s", e.File, e.Position.Line, e.Position.Column, e.Message)
	}
	if e.Excerpt == "" {
		return head
	}
	return head + "\n" + e.Excerpt
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Errors holds all problems, in the order of the files.
type Errors = List[*Error]

// List combines several errors, each on its own lines.
type List[E error] []E

func (l List[E]) Error() string {
	texts := make([]string, len(l))
	for i, one := range l {
		texts[i] = one.Error()
	}
	return strings.Join(texts, "\n")
}

// Unwrap returns the individual errors.
func (l List[E]) Unwrap() []error {
	all := make([]error, len(l))
	for i, one := range l {
		all[i] = one
	}
	return all
}

// excerptWidth is the maximum number of characters shown of a line.
const excerptWidth = 100

// excerpt returns the line at pos with a caret below it, and the preceding line.
func excerpt(lines []string, pos Position) string {
	if pos.Line < 1 || pos.Line > len(lines) {
		return ""
	}
	width := len(fmt.Sprint(pos.Line))
	// A position far to the right shifts the window so that the caret is visible.
	start := max(0, pos.Column-excerptWidth*3/4)
	first := pos.Line
	if start == 0 {
		first = max(1, pos.Line-1)
	}
	var b strings.Builder
	for number := first; number <= pos.Line; number++ {
		fmt.Fprintf(&b, "  %*d | %s\n", width, number, window(lines[number-1], start))
	}
	fmt.Fprintf(&b, "  %*s | %s^", width, "", strings.Repeat(" ", max(0, pos.Column-1-start)))
	return b.String()
}

// window returns the visible part of a line. Characters that could move the cursor or color
// the terminal are replaced.
func window(line string, start int) string {
	shown := []rune(line)
	shown = shown[min(start, len(shown)):]
	shown = shown[:min(excerptWidth, len(shown))]
	for i, r := range shown {
		switch {
		case r == '\t':
			shown[i] = ' '
		case !unicode.IsPrint(r):
			shown[i] = unicode.ReplacementChar
		}
	}
	return strings.TrimRight(string(shown), " ")
}
