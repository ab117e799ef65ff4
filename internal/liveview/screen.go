package liveview

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/waza-isolate/waza/internal/visible"
)

// What a terminal is told.
const (
	up        = "\r\x1b[%dA" // by lines, wherever in its line the cursor is
	eraseLine = "\x1b[K"     // from here on
	eraseRest = "\x1b[J"     // of the screen
	noWrap    = "\x1b[?7l"   // what is too long for a line is not shown
	wrap      = "\x1b[?7h"
)

// Screen is what the last lines of a terminal show. The cursor is at the beginning of the
// line behind them.
type Screen struct {
	widths []int // columns of the lines that are there
}

// Draw is what to write at once for lines to be the last ones, in place of those that
// are, with text in front of them that stays. Lines must not be as long as the terminal
// is wide; those that its measure of characters makes longer are cut by it. text is
// nothing or whole lines.
func (s *Screen) Draw(text string, lines []string, columns int) string {
	var out strings.Builder
	if rows := s.rows(columns); rows > 0 {
		fmt.Fprintf(&out, up, rows)
		if text != "" || len(lines) == 0 {
			out.WriteString(eraseRest)
		}
	}
	out.WriteString(text)
	if len(lines) > 0 {
		out.WriteString(noWrap)
		for _, line := range lines {
			out.WriteString(line + eraseLine + "\n")
		}
		out.WriteString(wrap + eraseRest)
	}
	s.widths = s.widths[:0]
	for _, line := range lines {
		s.widths = append(s.widths, visible.Columns(unpainted(line)))
	}
	return out.String()
}

// rows is how many rows the lines take now. A terminal that became narrower has broken
// those that it has no room for.
func (s *Screen) rows(columns int) (n int) {
	columns = max(columns, 1)
	for _, width := range s.widths {
		n += max(1, (width+columns-1)/columns)
	}
	return n
}

// unpainted is a line without its colours.
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
