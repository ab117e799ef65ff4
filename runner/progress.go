package runner

import (
	"slices"
	"time"

	"github.com/waza-isolate/waza/evidence"
)

// TrialProgress is the state of a trial.
type TrialProgress struct {
	evidence.Progress               // its last event
	Began             time.Time     // start of the first attempt
	took              time.Duration // set when it is done
}

// Done reports whether the trial has its outcome.
func (t *TrialProgress) Done() bool { return t.Phase == evidence.PhaseDone }

// Progress is the state of a run, computed from its events: running trials, outcomes of completed
// ones, and an estimate of the remaining time. Times come from the events and from the caller. The
// zero value is a run without events. It is not safe for concurrent use.
type Progress struct {
	trials   []*TrialProgress // in the order of their start
	byID     map[evidence.TrialID]*TrialProgress
	slots    []*TrialProgress // running trials, one per worker; nil for an idle worker
	outcomes map[evidence.Class]int
	done     int
	took     time.Duration // total time of completed trials
	last     time.Time
}

// Add adds an event, and returns its trial.
func (s *Progress) Add(p evidence.Progress) *TrialProgress {
	id := p.ID()
	t := s.byID[id]
	switch {
	case t == nil:
		t = &TrialProgress{Began: p.Time}
		if s.byID == nil {
			s.byID, s.outcomes = map[evidence.TrialID]*TrialProgress{}, map[evidence.Class]int{}
		}
		s.byID[id], s.trials = t, append(s.trials, t)
	case t.Done() || p.Phase == evidence.PhaseStart && p.Attempt <= t.Attempt: // a resumed run repeats the event
		if t.Done() {
			s.count(t, -1)
		}
		t.Began = p.Time
	}
	t.Progress, s.last = p, p.Time
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
func (s *Progress) count(t *TrialProgress, by int) {
	s.done += by
	s.took += time.Duration(by) * t.took
	if s.outcomes[t.Class] += by; s.outcomes[t.Class] == 0 {
		delete(s.outcomes, t.Class)
	}
}

// Trial returns a trial that has started, or nil.
func (s *Progress) Trial(id evidence.TrialID) *TrialProgress { return s.byID[id] }

// Trials returns the trials that have started, in that order.
func (s *Progress) Trials() []*TrialProgress { return s.trials }

// Running returns the running trials. A trial keeps its position while it is running.
func (s *Progress) Running() (all []*TrialProgress) {
	for _, t := range s.slots {
		if t != nil {
			all = append(all, t)
		}
	}
	return all
}

// Done returns the number of trials that have an outcome.
func (s *Progress) Done() int { return s.done }

// Outcomes returns the number of trials by outcome. It must not be modified.
func (s *Progress) Outcomes() map[evidence.Class]int { return s.outcomes }

// Last returns the time of the last event, or the zero time.
func (s *Progress) Last() time.Time { return s.last }

// Left estimates the remaining time of a run with the given number of trials and workers. It
// assumes that trials take as long as the completed ones on average and, since slow trials
// may come last, that one that has exceeded the average by some time takes as much time
// again. It returns false if fewer trials have completed than run at once, since the first to
// end are the shortest.
func (s *Progress) Left(trials, workers int, now time.Time) (time.Duration, bool) {
	workers = max(1, min(workers, trials))
	rest := trials - s.done
	if s.done < workers || rest <= 0 {
		return 0, false
	}
	mean := s.took / time.Duration(s.done)
	work, longest, running := time.Duration(0), time.Duration(0), s.Running()
	for _, t := range running {
		left := (mean - now.Sub(t.Began)).Abs()
		work, longest = work+left, max(longest, left)
	}
	work += mean * time.Duration(max(0, rest-len(running)))
	return max(longest, work/time.Duration(min(workers, rest))), work > 0
}
