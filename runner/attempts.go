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

	// recoverTimeout bounds waiting for the backend before a retry, until it has once failed to
	// come back. After that, lostTimeout does.
	recoverTimeout = 60 * time.Second
	lostTimeout    = time.Second
)

// runTrial runs a trial until its outcome is final, and grades it. It retries trials with outcome
// infra, if that could help, and failed trials with attempts left. An interrupted trial has no
// result.
func (r *run) runTrial(ctx context.Context, t *plan.Trial) (*Result, error) {
	dir := TrialDir(r.o.Dir, t.Task, t.Number)
	earlier, err := dir.Earlier()
	if err != nil {
		return nil, err
	}
	for broken := 0; ; {
		attempt := *t
		attempt.Attempt = len(earlier) + 1
		result, err := r.attempt(ctx, &attempt, dir)
		if err != nil || result == nil {
			return nil, err
		}
		result.Earlier = earlier
		again := result.failedWithMoreAttempts(r.o.MaxAttempts) && !t.Trigger
		if result.Verdicts.Class == evidence.ClassInfra {
			broken++
			again = result.Verdicts.Reason != evidence.ReasonPin && broken <= r.o.InfraRetries
		}
		if !again || ctx.Err() != nil || evidence.CheckSpace(string(dir)) != nil || r.backs.recover(ctx, r.backend) != nil {
			r.ends(&attempt, evidence.PhaseDone, result)
			return result, nil
		}
		r.ends(&attempt, evidence.PhaseAgain, result)
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
func (r *run) attempt(ctx context.Context, t *plan.Trial, dir evidence.Dir) (*Result, error) {
	record, err := trial.Run(ctx, t, dir, r.trialOptions(t))
	r.budget.end(t)
	if err != nil || record == nil {
		return nil, err
	}
	if err := r.consult(ctx, t, dir, *record); err != nil {
		if ctx.Err() != nil {
			return nil, nil // its judge is asked when the run is resumed
		}
		return nil, err
	}
	if r.o.Snapshots != nil {
		if _, err := r.o.Snapshots.take(dir, *record); err != nil {
			return nil, err
		}
	}
	verdicts, err := grade(dir, *record)
	return &Result{Dir: dir, Trial: *record, Verdicts: verdicts}, err
}

// trialOptions returns the options of a trial of the run.
func (r *run) trialOptions(t *plan.Trial) trial.Options {
	return trial.Options{
		Host: r.o.Host.Host, Backend: r.pool, Wall: r.o.Wall(), Shared: r.shared, Baseline: r.baselineOf(t),
		Room:    func() (trial.Shares, error) { return r.budget.begin(t) },
		Entered: func(phase evidence.Phase) { r.enters(t, phase) },
		Called: func(c trial.Calling) {
			r.o.Progress(Update{Task: t.Task, Number: t.Number, Attempt: max(t.Attempt, 1), Phase: evidence.PhaseAgent, Call: &c})
		},
		Weak: r.o.Weak, HostHooks: r.o.Hooks.OnHost(), Start: r.o.Start,
	}
}

// baselineOf returns the same trial without skills, if a grader compares with it.
func (r *run) baselineOf(t *plan.Trial) *evidence.BaselineTrial {
	if r.o.Against == "" || !grading.ComparesPairs(t.Graders) {
		return nil
	}
	base, err := TrialDir(r.o.Against, t.Task, t.Number).Trial()
	switch {
	case err != nil:
		return &evidence.BaselineTrial{Missing: "its trial cannot be read"}
	case base.Class != "":
		return &evidence.BaselineTrial{Missing: "its trial ended as " + string(base.Class)}
	}
	return &evidence.BaselineTrial{FinalOutput: base.FinalOutput}
}

// consult asks the trial's judge, if it has one.
func (r *run) consult(ctx context.Context, t *plan.Trial, dir evidence.Dir, record evidence.Trial) error {
	if t.Judge == nil {
		return nil
	}
	r.enters(t, evidence.PhaseJudge)
	_, err := trial.Consulting{Connect: r.o.Connect, Secrets: r.o.Secrets}.Ask(ctx, dir, record)
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
func (r *reconnection) recover(ctx context.Context, b trial.Backend) error {
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
