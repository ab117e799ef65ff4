package runner

import (
	"context"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/runner/trial"
	"github.com/waza-isolate/waza/sandbox"
)

const (
	// DefaultInfraRetries is how often a trial with outcome infra is retried.
	DefaultInfraRetries = 2

	// recoverTimeout bounds waiting for the backend before a retry, until the backend has once failed
	// to come back. From then on lostTimeout applies.
	recoverTimeout = 60 * time.Second
	lostTimeout    = time.Second
)

// runTrial runs a trial until its outcome is final, and grades it. It retries trials with outcome
// infra, if that could help, and failed trials with attempts left. An interrupted trial has no
// result.
func (s *scheduler) runTrial(ctx context.Context, t *plan.Trial) (*Result, error) {
	dir := TrialDir(s.o.Dir, t.Task, t.Number)
	earlier, err := dir.Earlier()
	if err != nil {
		return nil, err
	}
	for broken := 0; ; {
		attempt := *t
		attempt.Attempt = len(earlier) + 1
		result, err := s.attempt(ctx, &attempt, dir)
		if err != nil || result == nil {
			return nil, err
		}
		result.Earlier = earlier
		again := result.failedWithMoreAttempts(s.o.MaxAttempts) && !t.Trigger
		if result.Verdicts.Class == evidence.ClassInfra {
			broken++
			again = result.Verdicts.Reason != evidence.ReasonPin && broken <= s.o.InfraRetries
		}
		if !again || ctx.Err() != nil || evidence.CheckSpace(string(dir)) != nil || s.connection.recover(ctx, s.backend) != nil {
			s.ends(&attempt, evidence.PhaseDone, result)
			return result, nil
		}
		s.ends(&attempt, evidence.PhaseAgain, result)
		if err := setAside(dir, evidence.AttemptsDir); err != nil {
			return nil, err
		}
		ended := result.Trial
		ended.Class, ended.Reason, ended.Message = ended.Outcome(result.Verdicts)
		earlier = append(earlier, ended)
	}
}

// failedWithMoreAttempts reports whether graders failed the trial and it has attempts left. A
// trial with a successful attack is not retried.
func (r *Result) failedWithMoreAttempts(most int) bool {
	v := r.Verdicts
	if v.Class != evidence.ClassFail || v.Attack != nil && v.Attack.Succeeded {
		return false
	}
	failed := 1
	for _, attempt := range r.Earlier {
		if attempt.Class == evidence.ClassFail {
			failed++
		}
	}
	return failed < most
}

// attempt runs and grades a trial once.
func (s *scheduler) attempt(ctx context.Context, t *plan.Trial, dir evidence.Dir) (*Result, error) {
	record, err := trial.Run(ctx, t, dir, s.trialOptions(t))
	if err != nil || record == nil {
		return nil, err
	}
	if err := s.consult(ctx, t, dir, *record); err != nil {
		if ctx.Err() != nil {
			return nil, nil // its judge is asked when the run is resumed
		}
		return nil, err
	}
	if s.o.Snapshots != nil {
		if _, err := s.o.Snapshots.take(dir, *record); err != nil {
			return nil, err
		}
	}
	verdicts, err := grade(dir, *record)
	if evidence.DiskFull(err) {
		if *record, err = trial.OutOfSpace(dir, *record, err); err == nil {
			verdicts, err = grade(dir, *record)
		}
	}
	return &Result{Dir: dir, Trial: *record, Verdicts: verdicts}, err
}

// trialOptions returns the options of a trial of the run.
func (s *scheduler) trialOptions(t *plan.Trial) trial.Options {
	return trial.Options{
		Secrets: s.o.Host.Secrets, Connect: trial.JudgeOf(t, s.o.Host.Connect), ServerLog: s.o.Host.ServerLog, Say: s.sayOnce, Hold: s.o.Host.Hold,
		Backend: s.pool, Wall: s.o.Wall(), Shared: s.shared, Baseline: s.baselineOf(t),
		Entered: func(phase evidence.Phase) { s.enters(t, phase) },
		Called: func(c trial.Calling) {
			s.o.Progress(Update{Task: t.Task, Number: t.Number, Attempt: max(t.Attempt, 1), Phase: evidence.PhaseAgent, Call: &c})
		},
		Weak: s.o.Weak, HostHooks: s.o.Hooks.OnHost(), Start: s.o.Start,
	}
}

// sayOnce prints a progress message, once for all trials.
func (s *scheduler) sayOnce(what string) {
	if _, said := s.said.LoadOrStore(what, true); !said {
		s.o.Host.Say(what)
	}
}

// baselineOf returns the same trial without skills, if a grader compares with it.
func (s *scheduler) baselineOf(t *plan.Trial) *evidence.BaselineTrial {
	if s.o.Against == "" || !grading.ComparesPairs(t.Graders) {
		return nil
	}
	base, err := TrialDir(s.o.Against, t.Task, t.Number).Trial()
	switch {
	case err != nil:
		return &evidence.BaselineTrial{Missing: "its trial cannot be read"}
	case base.Class != "":
		return &evidence.BaselineTrial{Missing: "its trial ended as " + string(base.Class)}
	}
	return &evidence.BaselineTrial{FinalOutput: base.FinalOutput}
}

// consult asks the trial's judge, if it has one.
func (s *scheduler) consult(ctx context.Context, t *plan.Trial, dir evidence.Dir, record evidence.Trial) error {
	if t.Judge == nil {
		return nil
	}
	s.enters(t, evidence.PhaseJudge)
	_, err := trial.Consulting{Connect: trial.JudgeOf(t, s.o.Host.Connect), Secrets: s.o.Host.Secrets}.Ask(ctx, dir, record)
	return err
}

// reconnection makes workers wait together for a backend that is not reachable.
type reconnection struct {
	turn chan struct{} // a mutex: contains a value while a worker reconnects
	lost error         // why reconnecting failed; guarded by turn
}

// gone returns the error of the last attempt to reconnect, or nil. It waits while another
// worker reconnects.
func (r *reconnection) gone() error {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	return r.lost
}

// recover waits until the backend can open sandboxes again. It returns nil immediately if the
// backend is not a [sandbox.Reconnector].
func (r *reconnection) recover(ctx context.Context, b sandbox.Opener) error {
	reconnector, ok := b.(sandbox.Reconnector)
	if !ok {
		return nil
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	limit := recoverTimeout
	if r.lost != nil {
		limit = lostTimeout
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := reconnector.Reconnect(limited)
	if ctx.Err() == nil {
		r.lost = err
	}
	return err
}
