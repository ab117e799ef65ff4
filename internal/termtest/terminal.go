// Package termtest provides a small terminal emulator and a pseudoterminal for tests.
package termtest

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/waza-isolate/waza/internal/text"
)

// Terminal is a terminal emulator. It supports line ends, cursor up, erasing to the end of
// the line or screen, and switching wrapping; it ignores colors. Other control sequences
// are added to Unknown.
type Terminal struct {
	Unknown []string

	columns, rows int
	lines         []row // including those scrolled out
	row, column   int   // of the cursor; row counts from the first line
	noWrap        bool
	held          string // an incomplete sequence
}

// row is a row of the terminal.
type row struct {
	cells []rune // a wide character takes two cells
	goes  bool   // wrapped into the next row; only erasing the whole row ends that
}

// New returns an empty terminal.
func New(columns, rows int) *Terminal {
	return &Terminal{columns: columns, rows: rows, lines: make([]row, 1)}
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

// escape executes a control sequence and returns its length, or 0 if it is incomplete.
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
		if sequence == "2K" {
			t.lines[t.row] = row{}
		}
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

// cut erases the line from the cursor to its end.
func (t *Terminal) cut() {
	if line := &t.lines[t.row]; t.column < len(line.cells) {
		line.cells = line.cells[:t.column]
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
	width := text.Columns(string(r))
	if t.column+width > t.columns {
		if t.noWrap {
			t.column = t.columns - width
		} else {
			t.lines[t.row].goes = true
			t.down()
			t.column = 0
		}
	}
	line := &t.lines[t.row]
	for len(line.cells) < t.column+width {
		line.cells = append(line.cells, ' ')
	}
	for i := range width {
		line.cells[t.column+i] = 0
	}
	if width > 0 {
		line.cells[t.column] = r
	}
	t.column += width
}

func (t *Terminal) down() {
	if t.row++; t.row == len(t.lines) {
		t.lines = append(t.lines, row{})
	}
}

// Resize changes the size of the terminal and rewraps lines, as most terminals do. The
// cursor stays in the last row of a line.
func (t *Terminal) Resize(columns, rows int) {
	old, cursor := t.lines, t.row
	t.columns, t.rows, t.lines = columns, rows, nil
	var line []rune
	for i, r := range old {
		line = append(line, r.cells...)
		if r.goes && i+1 < len(old) {
			continue
		}
		for len(line) > columns {
			t.lines = append(t.lines, row{line[:columns:columns], true})
			line = line[columns:]
		}
		t.lines = append(t.lines, row{cells: line})
		line = nil
		if i == cursor {
			t.row = len(t.lines) - 1
		}
	}
}

// Text returns everything shown and not erased, without trailing empty lines.
func (t *Terminal) Text() string {
	var out strings.Builder
	for _, line := range t.lines {
		text := strings.ReplaceAll(string(line.cells), "\x00", "")
		out.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	return strings.TrimRight(out.String(), "\n")
}
