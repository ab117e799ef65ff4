// Package liveview renders a run's progress as the last lines of a terminal.
//
// It does not read the clock and writes nothing.
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
	"github.com/waza-isolate/waza/runner/trial"
)

// State is the state of a run. It is not safe for concurrent use.
type State struct {
	// Stopping reports that the run was interrupted.
	Stopping bool

	total   int // trials
	workers int // maximum number of concurrent trials
	started time.Time
	run     runner.Progress
	calls   map[evidence.TrialID]*trial.Calling // of running trials, in their last attempt
	longest layout                              // columns of the longest parts so far
}

// working is a running trial.
type working struct {
	*runner.TrialProgress
	call *trial.Calling // the last call; nil before the first
}

// New returns the state of a run of total trials, at most workers at once, that begins now.
func New(total, workers int, now time.Time) *State {
	return &State{total: total, workers: workers, started: now, calls: map[evidence.TrialID]*trial.Calling{}}
}

// Update applies an update from the runner.
func (s *State) Update(u runner.Update, now time.Time) {
	event := u.Progress()
	id := event.ID()
	known := s.run.Trial(id)
	switch {
	case u.Call == nil:
		if known == nil || known.Attempt != u.Attempt || u.Phase == evidence.PhaseDone {
			delete(s.calls, id)
		}
		event.Time = now
		known = s.run.Add(event)
	case known != nil && !known.Done():
		s.calls[id] = u.Call
	default:
		return
	}
	if trial := (working{known, s.calls[id]}); !trial.Done() {
		s.longest.name = max(s.longest.name, text.Columns(trial.task()+trial.number()))
		s.longest.doing = max(s.longest.doing, text.Columns(trial.doing(false)))
	}
}

// running returns the running trials, in the order of their workers.
func (s *State) running() (all []working) {
	for _, t := range s.run.Running() {
		all = append(all, working{t, s.calls[t.ID()]})
	}
	return all
}

func (s *State) left(now time.Time) (time.Duration, bool) {
	if s.Stopping {
		return 0, false
	}
	return s.run.Left(s.total, s.workers, now)
}

// task returns the task's id for display.
func (w working) task() string { return safe(w.Task) }

// number returns the trial's number with a leading slash.
func (w working) number() string { return fmt.Sprintf("/%d", w.Number) }

// safe returns untrusted text on one line.
func safe(s string) string { return text.Inert(text.Visible(s)) }

// seconds formats a duration compactly.
func seconds(d time.Duration) string {
	n := int(max(0, d).Seconds())
	switch {
	case n < 100:
		return fmt.Sprintf("%ds", n)
	case n < 3600:
		return fmt.Sprintf("%dm%02ds", n/60, n%60)
	}
	return fmt.Sprintf("%dh%02dm", n/3600, n/60%60)
}

// Ended returns a line about how an attempt ended and, with reason, why.
func Ended(u runner.Update, reason bool, style terminal.Style) string {
	ended := u.Progress()
	class := terminal.Paint(style, view.StateOf(ended.Class))(fmt.Sprintf("%-11s", view.EndedAs(ended.Class, ended.Reason)))
	took := u.Result.Trial.Ended.Sub(u.Result.Trial.Started)
	line := fmt.Sprintf("%s %s  %s", class, safe(ended.ID().String()), view.Clock(took))
	if reason && ended.Message != "" {
		line += "  " + safe(ended.Message)
	}
	if a := u.Result.Verdicts.Attack; a != nil && a.Succeeded {
		line += "  " + style.Bad(results.AttackSucceeded)
	}
	if u.Phase == evidence.PhaseAgain {
		line += "; trying again"
	}
	return line
}

// maxNamed is the maximum number of running trials named in a line.
const maxNamed = 3

// Pulse returns a line about the running trials, the longest running first.
func (s *State) Pulse(now time.Time) string {
	running := s.running()
	slices.SortStableFunc(running, func(a, b working) int { return a.Began.Compare(b.Began) })
	var named []string
	for _, w := range running[:min(len(running), maxNamed)] {
		named = append(named, fmt.Sprintf("%s (%s, %s)", w.named(60, 30), text.Fit(w.doing(false), 80), seconds(now.Sub(w.Began))))
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
		line += ", " + view.Left(left)
	}
	return line
}
