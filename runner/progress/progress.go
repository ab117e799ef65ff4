// Package progress computes the state of a run from its events: running trials, outcomes of
// completed ones, and an estimate of the remaining time.
//
// It is pure: times come from the events and from the caller.
package progress

import (
	"slices"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/plan"
)

// Trial is the state of a trial.
type Trial struct {
	plan.TrialID
	Attempt int // starts at 1
	Phase   evidence.Phase
	Since   time.Time // start of the phase
	Began   time.Time // start of the first attempt
	// Class, Reason and Message are the outcome of an attempt; empty before it has ended.
	Class   evidence.Class
	Reason  evidence.Reason
	Message string

	took time.Duration // set when it is done
}

// Done reports whether the trial has its outcome.
func (t *Trial) Done() bool { return t.Phase == evidence.PhaseDone }

// State is the state of a run. The zero value is that of a run without events. It is not safe
// for concurrent use.
type State struct {
	trials   []*Trial // in the order of their start
	byID     map[plan.TrialID]*Trial
	slots    []*Trial // running trials, one per worker; nil for an idle worker
	outcomes map[evidence.Class]int
	done     int
	took     time.Duration // total time of completed trials
	last     time.Time
}

// Add adds an event, and returns its trial.
func (s *State) Add(p evidence.Progress) *Trial {
	id := plan.TrialID{Task: p.Task, Number: p.Number}
	t := s.byID[id]
	switch {
	case t == nil:
		t = &Trial{TrialID: id, Began: p.Time}
		if s.byID == nil {
			s.byID, s.outcomes = map[plan.TrialID]*Trial{}, map[evidence.Class]int{}
		}
		s.byID[id], s.trials = t, append(s.trials, t)
	case t.Done() || p.Phase == string(evidence.PhaseStart) && p.Attempt <= t.Attempt: // a resumed run repeats it
		if t.Done() {
			s.count(t, -1)
		}
		t.Began = p.Time
	}
	t.Attempt, t.Phase, t.Since = p.Attempt, evidence.Phase(p.Phase), p.Time
	t.Class, t.Reason, t.Message = p.Class, p.Reason, p.Message
	s.last = p.Time
	at := slices.Index(s.slots, t)
	switch {
	case t.Done():
		if at >= 0 {
			s.slots[at] = nil
		}
		t.took = max(0, p.Time.Sub(t.Began))
		s.count(t, 1)
	case at < 0:
		if at = slices.Index(s.slots, nil); at < 0 {
			s.slots = append(s.slots, nil)
			at = len(s.slots) - 1
		}
		s.slots[at] = t
	}
	return t
}

// count adds a completed trial to the totals, or removes it.
func (s *State) count(t *Trial, by int) {
	s.done += by
	s.took += time.Duration(by) * t.took
	if s.outcomes[t.Class] += by; s.outcomes[t.Class] == 0 {
		delete(s.outcomes, t.Class)
	}
}

// Trial returns a trial that has started, or nil.
func (s *State) Trial(id plan.TrialID) *Trial { return s.byID[id] }

// Trials returns the trials that have started, in that order.
func (s *State) Trials() []*Trial { return s.trials }

// Running returns the running trials. A trial keeps its position while it is running.
func (s *State) Running() (all []*Trial) {
	for _, t := range s.slots {
		if t != nil {
			all = append(all, t)
		}
	}
	return all
}

// Done returns the number of trials that have an outcome.
func (s *State) Done() int { return s.done }

// Outcomes returns the number of trials by outcome. It must not be modified.
func (s *State) Outcomes() map[evidence.Class]int { return s.outcomes }

// Last returns the time of the last event, or the zero time.
func (s *State) Last() time.Time { return s.last }

// Left estimates the remaining time of a run with the given number of trials and workers. It
// assumes that trials take as long as the completed ones on average. It returns false if fewer
// trials have completed than run at once, since the first to end are the shortest, and if
// running trials take longer than the average.
func (s *State) Left(trials, workers int, now time.Time) (time.Duration, bool) {
	workers = max(1, min(workers, trials))
	rest := trials - s.done
	if s.done < workers || rest <= 0 {
		return 0, false
	}
	mean := s.took / time.Duration(s.done)
	work, running := time.Duration(0), s.Running()
	for _, t := range running {
		work += max(0, mean-now.Sub(t.Began))
	}
	work += mean * time.Duration(max(0, rest-len(running)))
	return work / time.Duration(min(workers, rest)), work > 0
}
