// Package progress adds up what happened in a run so far, event by event: which trials are
// at work, how those that are done ended, and about how long the rest takes.
//
// It is pure: times are those of the events, and whoever asks says what time it is.
package progress

import (
	"slices"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/plan"
)

// Trial is how far a trial has come.
type Trial struct {
	plan.TrialID
	Attempt int // from 1
	Phase   evidence.Phase
	Since   time.Time // it came into that phase
	Began   time.Time // its first attempt
	// Class, Reason and Message are how an attempt ended; empty until then.
	Class   evidence.Class
	Reason  evidence.Reason
	Message string

	took time.Duration // of one that is done
}

// Done reports whether the trial has its outcome.
func (t *Trial) Done() bool { return t.Phase == evidence.PhaseDone }

// State is what is known of a run. The zero State is that of one in which nothing has
// happened. It is not safe for concurrent use.
type State struct {
	trials   []*Trial // in the order in which they began
	byID     map[plan.TrialID]*Trial
	slots    []*Trial // at work, one a worker; nil for a worker without a trial
	outcomes map[evidence.Class]int
	done     int
	took     time.Duration // by the trials that are done
	last     time.Time
}

// Add takes an event, and returns its trial.
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
	case t.Done() || p.Phase == string(evidence.PhaseStart) && p.Attempt <= t.Attempt: // a resumed run makes it again
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

// count counts a trial that is done, or no longer does.
func (s *State) count(t *Trial, by int) {
	s.done += by
	s.took += time.Duration(by) * t.took
	if s.outcomes[t.Class] += by; s.outcomes[t.Class] == 0 {
		delete(s.outcomes, t.Class)
	}
}

// Trial returns a trial that has begun; nil for another.
func (s *State) Trial(id plan.TrialID) *Trial { return s.byID[id] }

// Trials are those that have begun, in that order.
func (s *State) Trials() []*Trial { return s.trials }

// Running are the trials at work. Each keeps its place for as long as it is.
func (s *State) Running() (all []*Trial) {
	for _, t := range s.slots {
		if t != nil {
			all = append(all, t)
		}
	}
	return all
}

// Done is how many trials have an outcome.
func (s *State) Done() int { return s.done }

// Outcomes is how many of these have which. It must not be changed.
func (s *State) Outcomes() map[evidence.Class]int { return s.outcomes }

// Last is when something happened last; zero before anything did.
func (s *State) Last() time.Time { return s.last }

// Left is about how long the rest of the trials takes with so many workers, going by those
// that are done: as many at work as now, each for as long as those took. It is false while
// fewer are done than run at once, since the first to end are the shortest, and where those
// at work take longer than any guess.
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
