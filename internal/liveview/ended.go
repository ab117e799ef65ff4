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
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner"
)

// Ended is a line that says how an attempt ended and why, in a sentence.
func Ended(u runner.Update, style terminal.Style) string {
	v := u.Result.Verdicts
	class := terminal.Paint(style, v.Class)(fmt.Sprintf("%-11s", v.Class.With(v.Reason)))
	took := u.Result.Trial.Ended.Sub(u.Result.Trial.Started)
	line := fmt.Sprintf("%s %s  %.1fs", class, safe(fmt.Sprintf("%s/%d", u.Task, u.Number)), took.Seconds())
	if why := view.WhyOf(results.Graded(v)).Line(); why != "" {
		line += "  " + safe(why)
	}
	if u.Phase == evidence.PhaseAgain {
		line += "; once more"
	}
	return line
}

// maxNamed is how many trials a line names that are at work.
const maxNamed = 3

// Pulse is one line that says what is at work, those that are at it longest first.
func (s *State) Pulse(now time.Time) string {
	running := s.running()
	slices.SortStableFunc(running, func(a, b working) int { return a.Began.Compare(b.Began) })
	var named []string
	for _, w := range running[:min(len(running), maxNamed)] {
		named = append(named, fmt.Sprintf("%s (%s, %s)", w.named(60), text.Fit(w.doing(false), 80), seconds(now.Sub(w.Began))))
	}
	if more := len(running) - len(named); more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	if len(named) == 0 {
		named = []string{"no trial yet"}
	}
	verb := "at work"
	if s.Stopping {
		verb = "stopping"
	}
	line := fmt.Sprintf("%s after %s: %s; %d of %d done", verb, seconds(now.Sub(s.started)), strings.Join(named, ", "), s.run.Done(), s.total)
	if left, known := s.left(now); known {
		line += ", " + about(left)
	}
	return line
}
