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
	noWrap    = "\x1b[?7l" // lines that are too long are clipped
	wrap      = "\x1b[?7h"
)

// Screen is the content of the last lines of a terminal. The cursor is on the line after
// them.
type Screen struct {
	widths []int // columns of the current lines
}

// Draw returns the output that replaces the current lines with lines, and prints said
// permanently above them. Lines must be narrower than the terminal. said must be empty or
// whole lines.
func (s *Screen) Draw(said string, lines []string, columns int) string {
	var out strings.Builder
	if rows := s.rows(columns); rows > 0 {
		out.WriteString("\r" + eraseRest) // text typed by the user
		fmt.Fprintf(&out, up, rows)
		if said != "" || len(lines) == 0 {
			// Line by line, because some terminals keep a screen that is erased as a whole.
			out.WriteString(strings.Repeat(eraseLine+"\n", rows))
			fmt.Fprintf(&out, up, rows)
		}
	}
	out.WriteString(said)
	for _, line := range lines {
		// Erasing the whole line clears the wrap that terminals remember.
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

// bounded returns a line that takes one row. Wrapping is disabled for lines with characters
// whose width differs between terminals. Other lines may wrap after the terminal has become
// narrower, so that the number of their rows is known.
func bounded(line string) string {
	if strings.IndexFunc(line, func(r rune) bool { return r > unicode.MaxASCII }) < 0 {
		return line
	}
	return noWrap + line + wrap
}

// rows returns the number of rows that the lines take now. A terminal that became narrower
// wraps those that no longer fit.
func (s *Screen) rows(columns int) (n int) {
	columns = max(columns, 1)
	for _, width := range s.widths {
		n += max(1, (width+columns-1)/columns)
	}
	return n
}

// unpainted returns a line without colors.
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
