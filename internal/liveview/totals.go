package liveview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/ansi"
	"github.com/waza-isolate/waza/internal/text"
)

// part is a piece of a line, and how it is painted.
type part struct {
	text  string
	paint func(string) string // nil for not at all
}

// totals is the line of the run, as much of it as there is room for.
func (s *State) totals(now time.Time, columns int, style ansi.Style) string {
	took := []part{{"  " + seconds(now.Sub(s.started)), style.Faint}}
	end := took
	if left, known := s.left(now); known {
		end = append(slices.Clone(took), part{"  " + about(left), style.Faint})
	}
	long, middle, short := s.tally(style)
	if s.Stopping {
		stopping := part{"stopping: ending " + text.Count(len(s.running()), "trial"), style.Doubtful}
		long, middle, short = slices.Insert(long, 0, stopping, part{text: "  "}), append([]part{stopping, {text: "  "}}, short...), []part{stopping}
	}
	for _, parts := range [][]part{slices.Concat(long, end), slices.Concat(middle, end), slices.Concat(long, took), slices.Concat(middle, took), slices.Concat(short, took)} {
		if columnsOf(parts) <= columns {
			return painted(parts)
		}
	}
	return text.Fit(short[0].text, columns)
}

// tally is how many trials came to what, at three lengths.
func (s *State) tally(style ansi.Style) (long, middle, short []part) {
	outcomes, done := s.run.Outcomes(), s.run.Done()
	broke := outcomes[evidence.ClassInfra]
	passed, infra := counted(outcomes[evidence.ClassPass], "passed", style.Good), counted(broke, "infra", style.Doubtful)
	failed := counted(done-outcomes[evidence.ClassPass]-broke, "failed", style.Bad)
	comma := part{text: ", "}
	short = []part{{text: fmt.Sprintf("%d/%d", done, s.total)}}
	middle = append(slices.Clone(short), part{text: "  "}, passed, comma, failed)
	if broke > 0 {
		middle = append(middle, comma, infra)
	}
	return []part{
		{text: fmt.Sprintf("%d of %d trials done: ", done, s.total)},
		passed, comma, failed, comma, infra, {text: fmt.Sprintf(", %d running", len(s.running()))},
	}, middle, short
}

// counted is a number of something, painted where there is some.
func counted(n int, what string, paint func(string) string) part {
	if n == 0 {
		paint = nil
	}
	return part{fmt.Sprintf("%d %s", n, what), paint}
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
