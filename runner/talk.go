package runner

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
)

// talk is what the runner has to do with a conversation: between two turns it grades what
// there is, where the task has a checkpoint there, and finds the next prompt. The agent's
// time stands still meanwhile.
type talk struct {
	tr      *trialRun
	clock   *agentClock
	started time.Time

	mu          sync.Mutex            // held while a turn is over
	turns       int                   // that are over; guarded by mu
	checkpoints []evidence.Checkpoint // guarded by mu
	err         error                 // what failed on our side; guarded by mu

	responder *evidence.Responder // nil until it is asked; guarded by mu
	exchanges []grading.Exchange  // that it is shown; guarded by mu
	heard     string              // what the agent said before the last turn; guarded by mu
	blame     string              // why nobody answered the agent; empty where that was not so; guarded by mu
}

// over is told that a turn is over, with what the agent said on stdout so far. It returns the
// next prompt; ok is false where there is none.
func (t *talk) over(ctx context.Context, said []byte) (prompt string, ok bool) {
	t.clock.pause()
	defer t.clock.resume()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turns++
	stop, err := t.checkpoint(ctx, t.turns, said)
	if stop && t.responder != nil {
		t.responder.Outcome = evidence.ResponderStopped
	}
	if err == nil && !stop {
		prompt, ok, err = t.next(ctx, said)
	}
	if ctx.Err() != nil {
		return "", false
	}
	t.err = err
	return prompt, ok && err == nil
}

func (t *talk) next(ctx context.Context, said []byte) (prompt string, ok bool, err error) {
	if r := t.tr.plan.Agent.Responder; r != nil {
		return t.respond(ctx, *r, said)
	}
	if prompts := t.tr.plan.Agent.FollowUps; t.turns <= len(prompts) {
		return prompts[t.turns-1], true, nil
	}
	return "", false, nil
}

// end puts what came of the conversation on the trial's record, once the agent has ended.
func (t *talk) end() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	to := &t.tr.record
	to.Checkpoints, to.Responder, to.BetweenTurns = t.checkpoints, t.responder, t.clock.paused()
	if t.blame != "" {
		t.tr.blame(evidence.ClassError, evidence.ReasonResponder, t.blame)
	}
	return t.err
}

// agentClock ends a context when the agent has had its time. While it is paused no time goes
// by.
type agentClock struct {
	end context.CancelCauseFunc

	mu      sync.Mutex
	timer   *time.Timer   // guarded by mu
	left    time.Duration // when it was last started; guarded by mu
	started time.Time     // of what is under way, a turn or a pause; guarded by mu
	stood   time.Duration // in all pauses; guarded by mu
}

func startAgentClock(ctx context.Context, limit time.Duration) (context.Context, *agentClock) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &agentClock{end: cancel, left: limit, started: time.Now()}
	c.timer = time.AfterFunc(limit, func() { cancel(context.DeadlineExceeded) })
	return ctx, c
}

// errNoEvent is why an agent is ended that did nothing at all.
var errNoEvent = errors.New("no first event")

// begins ends the context where the agent does nothing within limit; 0 is no limit. What it
// did is told by acted.
func (c *agentClock) begins(limit time.Duration, acted *atomic.Bool) (stop func() bool) {
	if limit == 0 {
		return func() bool { return true }
	}
	return time.AfterFunc(limit, func() {
		if !acted.Load() {
			c.end(errNoEvent)
		}
	}).Stop
}

func (c *agentClock) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer.Stop()
	c.left -= time.Since(c.started)
	c.started = time.Now()
}

func (c *agentClock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stood += time.Since(c.started)
	c.started = time.Now()
	c.timer.Reset(max(0, c.left))
}

func (c *agentClock) paused() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stood
}

// stop frees what the clock holds.
func (c *agentClock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer.Stop()
	c.end(nil)
}
