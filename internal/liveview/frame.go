package liveview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/terminal"
	"github.com/waza-isolate/waza/report/view"
)

// Size is the size of a terminal.
type Size struct{ Columns, Rows int }

// least returns the size with its minimum applied.
func (s Size) least() Size { return Size{max(s.Columns, 20), max(s.Rows, 3)} }

// room returns the number of lines for the view; the others are for what remains above it.
func (s Size) room() int { return max(2, s.Rows*2/3) }

// Frame returns the lines to show: one for each running trial, as space permits, and one
// for the run. Each is narrower than the terminal.
func (s *State) Frame(now time.Time, size Size, style terminal.Style) []string {
	size = size.least()
	var lines []string
	running := s.running()
	shown := len(running)
	if shown > size.room()-1 {
		shown = size.room() - 2
	}
	l := layoutFor(size.Columns, s.longest)
	l.head = headOf(running[:shown], l.name)
	for _, w := range running[:shown] {
		lines = append(lines, l.line(w, now, style))
	}
	if more := len(running) - shown; more > 0 {
		lines = append(lines, style.Faint(text.Fit(fmt.Sprintf("  and %d more", more), size.Columns-1)))
	}
	return append(lines, s.totals(now, size.Columns-1, style))
}

// layout is the width in columns of the parts of a line.
type layout struct {
	name, doing, calls int
	head               int  // columns for the beginning of a task's id that is cut
	short              bool // activities are abbreviated
}

const (
	timeColumns  = 6
	callsColumns = 12 // "99,999 calls"
	// Widths for the activity of a trial: below tight it is omitted; up to spacious, names leave it
	// the width of the longest activity; it never gets more than ample.
	tight    = 8
	spacious = 33
	ample    = 72
)

// layoutFor returns the widths of the parts of a line, given the longest of each.
func layoutFor(columns int, longest layout) layout {
	rest := columns - 1 - len("  ") - len("  ") - timeColumns
	full := min(longest.doing, spacious)
	l := layout{name: min(longest.name, max(6, columns/4, rest-len("  ")-full))}
	l.doing = rest - len("  ") - l.name
	l.short = l.doing < full
	if l.doing >= full+len("  ")+callsColumns {
		l.calls = callsColumns
		l.doing = min(l.doing-callsColumns-len("  "), ample)
	}
	if l.doing < tight {
		l.name, l.doing = min(longest.name, l.name+l.doing+len("  ")), 0
	}
	return l
}

// headOf returns the number of columns for the beginning of a task's name that is cut: half, or the
// nearest number that distinguishes the tasks.
func headOf(trials []working, columns int) int {
	tasks, numbers := map[string]bool{}, 0
	for _, w := range trials {
		tasks[w.task()], numbers = true, max(numbers, len(w.number()))
	}
	room := max(0, columns-numbers)
	tells := func(head int) bool {
		cut := map[string]bool{}
		for task := range tasks {
			cut[text.FitEnds(task, head, room-head)] = true
		}
		return len(cut) == len(tasks)
	}
	half := room / 2
	for off := range half {
		for _, head := range []int{half - off, half + off} {
			if tells(head) {
				return head
			}
		}
	}
	return half
}

func (l layout) line(w working, now time.Time, style terminal.Style) string {
	line := "  " + pad(w.named(l.name, l.head), l.name)
	if l.doing > 0 {
		doing := pad(w.doing(l.short), l.doing)
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

// named returns the trial's name in the given number of columns, with its complete number. A longer
// task is cut to head columns of its beginning, and its end.
func (w working) named(columns, head int) string {
	number := w.number()
	return text.FitEnds(w.task(), head, columns-len(number)-head) + number
}

// doing returns the activity of a trial, abbreviated if short is set.
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

// pad returns s in exactly the given number of columns.
func pad(s string, columns int) string {
	s = text.Fit(s, columns)
	return s + strings.Repeat(" ", max(0, columns-text.Columns(s)))
}

// part is a piece of a line with its style.
type part struct {
	text  string
	paint func(string) string // nil for no style
}

// totals returns the line of the run, as detailed as space permits.
func (s *State) totals(now time.Time, columns int, style terminal.Style) string {
	took := []part{{"  " + seconds(now.Sub(s.started)), style.Faint}}
	end := took
	if left, known := s.left(now); known {
		end = append(slices.Clone(took), part{"  " + view.Left(left), style.Faint})
	}
	long, middle, brief, short := s.tally(style)
	if s.Stopping {
		stopping := part{"stopping: ending " + text.Count(len(s.running()), "trial"), style.Doubtful}
		long, middle, short = slices.Insert(long, 0, stopping, part{text: "  "}), append([]part{stopping, {text: "  "}}, short...), []part{stopping}
		brief = middle
	}
	for _, parts := range [][]part{slices.Concat(long, end), slices.Concat(middle, end), slices.Concat(long, took), slices.Concat(middle, took), slices.Concat(brief, took), slices.Concat(short, took)} {
		if columnsOf(parts) <= columns {
			return painted(parts)
		}
	}
	return text.Fit(short[0].text, columns)
}

// tally returns how many trials have ended and how, at four levels of detail.
func (s *State) tally(style terminal.Style) (long, middle, brief, short []part) {
	outcomes, done := s.run.Outcomes(), s.run.Done()
	ends := func(lead string, all []view.End) (parts []part) {
		for _, end := range all {
			parts = append(parts, part{text: lead}, part{end.Text(), terminal.Paint(style, end.State)})
			lead = ", "
		}
		return parts
	}
	short = []part{{text: fmt.Sprintf("%d/%d", done, s.total)}}
	middle = slices.Concat(short, ends("  ", view.EndsOf(outcomes)))
	brief = slices.Concat(short, ends("  ", view.BriefEndsOf(outcomes)))
	long = slices.Concat([]part{{text: fmt.Sprintf("%d of %d trials done", done, s.total)}}, ends(": ", view.EndsOf(outcomes)), []part{{text: fmt.Sprintf(", %d running", len(s.running()))}})
	return long, middle, brief, short
}

func columnsOf(parts []part) (n int) {
	for _, p := range parts {
		n += text.Columns(p.text)
	}
	return n
}

func painted(parts []part) string {
	var line strings.Builder
	for _, p := range parts {
		if p.paint != nil {
			p.text = p.paint(p.text)
		}
		line.WriteString(p.text)
	}
	return line.String()
}
