package runner_test

import (
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func event(number, attempt int, phase evidence.Phase, seconds int, class evidence.Class) evidence.Progress {
	return evidence.Progress{Task: "t", Number: number, Attempt: attempt, Phase: phase, Time: at(seconds), Class: class}
}

// A trial that is made again counts once, and from its first attempt; one that a resumed
// run makes again counts anew.
func TestProgress(t *testing.T) {
	var s runner.Progress
	s.Add(event(1, 1, evidence.PhaseStart, 0, ""))
	s.Add(event(2, 1, evidence.PhaseStart, 1, ""))
	s.Add(event(1, 1, evidence.PhaseAgain, 4, evidence.ClassInfra))
	s.Add(event(1, 2, evidence.PhaseStart, 5, ""))
	if s.Done() != 0 || len(s.Running()) != 2 || s.Running()[0].Number != 1 || !s.Running()[0].Began.Equal(at(0)) {
		t.Errorf("%+v", s)
	}
	s.Add(event(1, 2, evidence.PhaseDone, 10, evidence.ClassInfra))
	if left, known := s.Left(3, 1, at(11)); !known || left != 10*time.Second {
		t.Errorf("%s %t", left, known)
	}
	if left, known := s.Left(2, 1, at(51)); !known || left != 40*time.Second {
		t.Errorf("%s %t after a trial that takes 5 times as long", left, known)
	}
	if _, known := s.Left(3, 2, at(11)); known {
		t.Error("fewer are done than run at once")
	}
	s.Add(event(3, 1, evidence.PhaseStart, 10, ""))
	if running := s.Running(); len(running) != 2 || running[0].Number != 3 {
		t.Errorf("the place of the trial that is done stays empty: %+v", running)
	}
	s.Add(event(2, 1, evidence.PhaseStart, 100, ""))
	s.Add(event(1, 1, evidence.PhaseStart, 100, ""))
	s.Add(event(1, 1, evidence.PhaseDone, 103, evidence.ClassPass))
	if s.Done() != 1 || s.Outcomes()[evidence.ClassPass] != 1 || len(s.Outcomes()) != 1 || len(s.Trials()) != 3 || !s.Last().Equal(at(103)) {
		t.Errorf("%+v", s)
	}
	if two := s.Trial(evidence.TrialID{Task: "t", Number: 2}); !two.Began.Equal(at(100)) {
		t.Errorf("%+v", two)
	}
}
