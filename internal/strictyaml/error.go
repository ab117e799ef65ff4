package strictyaml

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// Classes of an [Error].
var (
	// ErrInvalid is the class of what is wrong.
	ErrInvalid = errors.New("invalid")
	// ErrNotSupported is the class of what is right and not built yet.
	ErrNotSupported = errors.New("not supported yet")
)

// maxProblems bounds what one file can make us print.
const maxProblems = 100

// Position is a place in a file; both count from 1, columns in characters. The
// zero Position is the file as a whole.
type Position struct{ Line, Column int }

func (p Position) compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Line, q.Line), cmp.Compare(p.Column, q.Column))
}

// Error is one problem of a file.
type Error struct {
	File     string
	Position Position
	Message  string // one sentence: what is wrong and what to do
	Excerpt  string // lines around the place with a caret under it, or empty
	Class    error  // ErrInvalid or ErrNotSupported
}

// Error is "file:line:column: message" and the excerpt below it.
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

// Unwrap gives the class.
func (e *Error) Unwrap() error { return e.Class }

// Errors is every problem found, in the order of the files.
type Errors = List[*Error]

// List is several errors as one, each on lines of its own.
type List[E error] []E

func (l List[E]) Error() string {
	texts := make([]string, len(l))
	for i, one := range l {
		texts[i] = one.Error()
	}
	return strings.Join(texts, "\n")
}

// Unwrap gives the single errors.
func (l List[E]) Unwrap() []error {
	all := make([]error, len(l))
	for i, one := range l {
		all[i] = one
	}
	return all
}

// excerptWidth is how many characters of a line are shown.
const excerptWidth = 100

// excerpt returns the line at pos with a caret under it, and the line before it.
func excerpt(lines []string, pos Position) string {
	if pos.Line < 1 || pos.Line > len(lines) {
		return ""
	}
	width := len(fmt.Sprint(pos.Line))
	// A place far to the right moves the window, so that the caret is in it.
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

// window returns the part of a line that is shown. Characters that could move the
// cursor or colour the terminal are replaced.
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
