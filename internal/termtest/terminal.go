// Package termtest is for tests: a terminal that understands what waza writes to one, and
// a real pseudoterminal to write it to.
package termtest

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/waza-isolate/waza/internal/visible"
)

// Terminal shows what is written to it. It knows line ends, cursor up, erasing to the end
// of the line and of the screen, wrapping and its being switched off, and colours, which
// it leaves out; what else controls a terminal is in Unknown.
type Terminal struct {
	Unknown []string

	columns, rows int
	lines         [][]rune // with what has scrolled out; a wide character takes two places
	row, column   int      // of the cursor; row counts from the first line
	noWrap        bool
	held          string // the beginning of what has not come whole
}

// New is an empty terminal.
func New(columns, rows int) *Terminal {
	return &Terminal{columns: columns, rows: rows, lines: [][]rune{nil}}
}

// Write implements io.Writer.
func (t *Terminal) Write(p []byte) (int, error) {
	text := t.held + string(p)
	for text != "" {
		if text[0] == '\x1b' {
			n := t.escape(text)
			if n == 0 {
				break
			}
			text = text[n:]
			continue
		}
		if !utf8.FullRuneInString(text) {
			break
		}
		r, size := utf8.DecodeRuneInString(text)
		t.put(r)
		text = text[size:]
	}
	t.held = text
	return len(p), nil
}

// escape obeys a sequence and returns its length; 0 where it is not whole.
func (t *Terminal) escape(text string) int {
	end := strings.IndexFunc(text[1:], func(r rune) bool { return r >= '@' && r <= '~' && r != '[' })
	if end < 0 {
		return 0
	}
	end += 2
	switch sequence := strings.TrimPrefix(text[:end], "\x1b["); sequence[len(sequence)-1] {
	case 'A':
		n, _ := strconv.Atoi(sequence[:len(sequence)-1])
		t.row = max(t.row-max(n, 1), len(t.lines)-t.rows, 0)
	case 'K':
		t.cut()
	case 'J':
		t.cut()
		t.lines = t.lines[:t.row+1]
	case 'm':
	default:
		switch sequence {
		case "?7l", "?7h":
			t.noWrap = sequence == "?7l"
		default:
			t.Unknown = append(t.Unknown, sequence)
		}
	}
	return end
}

// cut erases the line from the cursor on.
func (t *Terminal) cut() {
	if line := t.lines[t.row]; t.column < len(line) {
		t.lines[t.row] = line[:t.column]
	}
}

func (t *Terminal) put(r rune) {
	switch r {
	case '\r':
		t.column = 0
		return
	case '\n':
		t.down()
		t.column = 0
		return
	}
	width := visible.Columns(string(r))
	if t.column+width > t.columns {
		if t.noWrap {
			t.column = t.columns - width
		} else {
			t.down()
			t.column = 0
		}
	}
	line := t.lines[t.row]
	for len(line) < t.column+width {
		line = append(line, ' ')
	}
	for i := range width {
		line[t.column+i] = 0
	}
	if width > 0 {
		line[t.column] = r
	}
	t.lines[t.row], t.column = line, t.column+width
}

func (t *Terminal) down() {
	if t.row++; t.row == len(t.lines) {
		t.lines = append(t.lines, nil)
	}
}

// Resize makes the terminal as wide, and breaks the lines that are longer anew, as most
// terminals do.
func (t *Terminal) Resize(columns, rows int) {
	old, at := t.lines, t.row
	t.columns, t.rows, t.lines, t.row = columns, rows, nil, 0
	for i, line := range old {
		if i == at {
			t.row = len(t.lines)
		}
		for len(line) > columns {
			t.lines = append(t.lines, line[:columns:columns])
			line = line[columns:]
		}
		t.lines = append(t.lines, line)
	}
}

// Text is all that the terminal has shown and not erased, without the empty lines at the
// end.
func (t *Terminal) Text() string {
	var out strings.Builder
	for _, line := range t.lines {
		text := strings.ReplaceAll(string(line), "\x00", "")
		out.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	return strings.TrimRight(out.String(), "\n")
}
