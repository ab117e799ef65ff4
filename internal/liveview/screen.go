package liveview

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/waza-isolate/waza/internal/text"
)

// Control sequences of a terminal.
const (
	up        = "\x1b[%dA" // by lines
	eraseLine = "\x1b[2K"
	eraseRest = "\x1b[J"   // of the screen, from here on
	noWrap    = "\x1b[?7l" // what is too long for a line is not shown
	wrap      = "\x1b[?7h"
)

// Screen is what the last lines of a terminal show. The cursor is in the line behind them.
type Screen struct {
	widths []int // columns of the lines that are there
}

// Draw returns what to write at once for lines to be the last ones, in place of those that
// are, with text in front of them that stays. Lines must not be as long as the terminal
// is wide. text is nothing or whole lines.
func (s *Screen) Draw(said string, lines []string, columns int) string {
	var out strings.Builder
	if rows := s.rows(columns); rows > 0 {
		out.WriteString("\r" + eraseRest) // what somebody typed
		fmt.Fprintf(&out, up, rows)
		if said != "" || len(lines) == 0 {
			// Line by line: some terminals keep a screen that is erased as a whole.
			out.WriteString(strings.Repeat(eraseLine+"\n", rows))
			fmt.Fprintf(&out, up, rows)
		}
	}
	out.WriteString(said)
	for _, line := range lines {
		// Erased as a whole it is no longer one that was broken, which terminals remember.
		out.WriteString(eraseLine + bounded(line) + "\n")
	}
	if len(lines) > 0 {
		out.WriteString(eraseRest)
	}
	s.widths = s.widths[:0]
	for _, line := range lines {
		s.widths = append(s.widths, text.Columns(unpainted(line)))
	}
	return out.String()
}

// bounded returns a line that takes one row. Of characters whose width terminals measure in
// several ways there is no telling; others are left to be broken where the terminal has
// just become narrower, so that it is known how many rows they take.
func bounded(line string) string {
	if strings.IndexFunc(line, func(r rune) bool { return r > unicode.MaxASCII }) < 0 {
		return line
	}
	return noWrap + line + wrap
}

// rows returns how many rows the lines take now. A terminal that became narrower has broken
// those that it has no room for.
func (s *Screen) rows(columns int) (n int) {
	columns = max(columns, 1)
	for _, width := range s.widths {
		n += max(1, (width+columns-1)/columns)
	}
	return n
}

// unpainted returns a line without its colours.
func unpainted(line string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(line, "\x1b[")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		end := strings.IndexFunc(after, unicode.IsLetter)
		line = after[end+1:]
	}
}
