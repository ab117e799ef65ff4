// Package liveview says on a few lines what a run is at work on: what it has been told,
// a time and the size of a terminal become lines, and lines become what to write to a
// terminal so that they stay its last ones.
//
// It reads no clock and writes nothing.
package liveview

import (
	"fmt"
	"slices"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/plan"
)

// State is what is known of a run. It is not safe for concurrent use.
type State struct {
	// Stopping says that the run was interrupted.
	Stopping bool

	total   int // trials
	workers int // trials at once
	started time.Time
	slots   []*working // one a worker, nil for one that has no trial
	name    int        // columns of the longest name so far

	passed, failed, infra int
	took                  time.Duration // by the trials that are done
}

// working is a trial at work.
type working struct {
	id      plan.TrialID
	task    string // to be shown
	number  string // likewise, with the slash in front
	attempt int
	phase   runner.Phase
	since   time.Time // the first attempt began
	call    *runner.Calling
}

// New is the state of a run of total trials, at most workers at once, that begins now.
func New(total, workers int, now time.Time) *State {
	return &State{total: total, workers: max(1, min(workers, total)), started: now}
}

// Update takes what the runner tells.
func (s *State) Update(u runner.Update, now time.Time) {
	id := plan.TrialID{Task: u.Task, Number: u.Number}
	at := slices.IndexFunc(s.slots, func(w *working) bool { return w != nil && w.id == id })
	switch {
	case u.Phase == runner.PhaseDone:
		s.end(at, u.Result.Verdicts.Class, now)
	case u.Call != nil:
		if at >= 0 {
			s.slots[at].call = u.Call
		}
	default:
		if at < 0 {
			at = s.begin(id, now)
		}
		w := s.slots[at]
		if w.attempt != u.Attempt {
			w.attempt, w.call = u.Attempt, nil
		}
		w.phase = u.Phase
	}
}

func (s *State) begin(id plan.TrialID, now time.Time) (at int) {
	w := &working{id: id, task: safe(id.Task), number: fmt.Sprintf("/%d", id.Number), since: now}
	s.name = max(s.name, text.Columns(w.task+w.number))
	if at = slices.Index(s.slots, nil); at < 0 {
		at = len(s.slots)
		s.slots = append(s.slots, nil)
	}
	s.slots[at] = w
	return at
}

func (s *State) end(at int, class evidence.Class, now time.Time) {
	if at >= 0 {
		s.took += now.Sub(s.slots[at].since)
		s.slots[at] = nil
	}
	switch class {
	case evidence.ClassPass:
		s.passed++
	case evidence.ClassInfra:
		s.infra++
	default:
		s.failed++
	}
}

func (s *State) done() int { return s.passed + s.failed + s.infra }

// running are the trials at work, in the order of their workers.
func (s *State) running() (all []*working) {
	for _, w := range s.slots {
		if w != nil {
			all = append(all, w)
		}
	}
	return all
}

// left is about how long the rest takes, going by the trials that are done: at work as
// many as now, each as long as those took. It is false while fewer are done than run at
// once, since the first to end are the shortest, and where those at work take longer than
// any guess.
func (s *State) left(now time.Time) (time.Duration, bool) {
	done := s.done()
	rest := s.total - done
	if done < s.workers || rest <= 0 || s.Stopping {
		return 0, false
	}
	mean := s.took / time.Duration(done)
	work, running := time.Duration(0), s.running()
	for _, w := range running {
		work += max(0, mean-now.Sub(w.since))
	}
	work += mean * time.Duration(max(0, rest-len(running)))
	return work / time.Duration(min(s.workers, rest)), work > 0
}

// safe is a stranger's text on one line.
func safe(s string) string { return text.Inert(text.Visible(s)) }

// seconds is a time in few characters.
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

// about is a guess in words.
func about(d time.Duration) string {
	switch minutes := int((d + 30*time.Second) / time.Minute); {
	case d < time.Minute:
		return "less than 1 min left"
	case minutes < 60:
		return fmt.Sprintf("about %d min left", minutes)
	default:
		return fmt.Sprintf("about %d h %02d min left", minutes/60, minutes%60)
	}
}
