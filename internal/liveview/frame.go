package liveview

import (
	"fmt"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/ansi"
	"github.com/waza-isolate/waza/internal/text"
)

// Size of a terminal.
type Size struct{ Columns, Rows int }

// least is what a terminal is taken to have, whatever it says.
func (s Size) least() Size { return Size{max(s.Columns, 20), max(s.Rows, 3)} }

// room is how many lines the view may take: some are for what stays above it.
func (s Size) room() int { return max(2, s.Rows*2/3) }

// Frame is what to show now: a line for each trial at work, as many as there is room for,
// and one for the run. Each takes less than the terminal's columns.
func (s *State) Frame(now time.Time, size Size, style ansi.Style) []string {
	size = size.least()
	var lines []string
	running := s.running()
	shown := len(running)
	if shown > size.room()-1 {
		shown = size.room() - 2
	}
	l := layoutFor(size.Columns, s.name)
	for _, w := range running[:shown] {
		lines = append(lines, l.line(w, now, style))
	}
	if more := len(running) - shown; more > 0 {
		lines = append(lines, style.Faint(text.Fit(fmt.Sprintf("  and %d more", more), size.Columns-1)))
	}
	return append(lines, s.totals(now, size.Columns-1, style))
}

// layout is how many columns of a line each part has.
type layout struct{ name, doing, calls int }

const (
	timeColumns  = 6
	callsColumns = 11 // "99999 calls"
	// tight is below how many columns there is no saying what a trial does, spacious from
	// how many on it is said at length, and ample how many are enough for it.
	tight    = 8
	spacious = 34
	ample    = 72
)

func layoutFor(columns, longest int) layout {
	l := layout{name: min(longest, max(6, columns/4))}
	l.doing = columns - 1 - len("  ") - l.name - 2*len("  ") - timeColumns
	if l.doing >= spacious+callsColumns {
		l.calls = callsColumns
		l.doing = min(l.doing-callsColumns-len("  "), ample)
	}
	if l.doing < tight {
		l.name, l.doing = min(longest, l.name+l.doing+len("  ")), 0
	}
	return l
}

func (l layout) line(w working, now time.Time, style ansi.Style) string {
	line := "  " + pad(w.named(l.name), l.name)
	if l.doing > 0 {
		doing := pad(w.doing(l.doing < spacious), l.doing)
		if w.call != nil && w.call.Open > 0 {
			doing = style.Server(doing)
		}
		line += "  " + doing
	}
	if l.calls > 0 {
		line += "  " + style.Faint(fmt.Sprintf("%*s", l.calls, w.calls()))
	}
	return line + "  " + style.Faint(fmt.Sprintf("%*s", timeColumns, seconds(now.Sub(w.Began))))
}

// named is the trial's name in so many columns, with its number whole.
func (w working) named(columns int) string {
	name := w.task() + w.number()
	if text.Columns(name) <= columns {
		return name
	}
	return text.Fit(w.task(), columns-len(w.number())) + w.number()
}

// doing is what a trial does, in few words or in more.
func (w working) doing(short bool) string {
	text := string(w.Phase)
	if w.Phase == evidence.PhaseAgent && w.call != nil {
		tool := safe(w.call.Server + "." + w.call.Tool)
		switch {
		case short && w.call.Open > 0:
			text = tool
		case short:
		case w.call.Open > 1:
			text = fmt.Sprintf("calling %s, and %d more", tool, w.call.Open-1)
		case w.call.Open > 0:
			text = "calling " + tool
		default:
			text += ", last called " + tool
		}
	}
	if w.Attempt > 1 && !short {
		text = fmt.Sprintf("attempt %d: %s", w.Attempt, text)
	}
	return text
}

func (w working) calls() string {
	if w.call == nil {
		return ""
	}
	return text.Count(w.call.Calls, "call")
}

// pad is text in just so many columns.
func pad(s string, columns int) string {
	s = text.Fit(s, columns)
	return s + strings.Repeat(" ", max(0, columns-text.Columns(s)))
}
