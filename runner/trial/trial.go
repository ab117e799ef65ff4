// Package trial runs one planned trial: it opens a sandbox, starts the servers, runs the agent
// behind recording proxies, collects what the agent left, does what graders ask for, and cleans
// up. It writes evidence to a directory.
//
// It grades only checkpoints, and does not retry; see package runner.
package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

const (
	// closeTimeout bounds draining the proxy, and separately closing a sandbox.
	closeTimeout = 90 * time.Second
	// outputTimeout bounds waiting for the end of an output after its sandbox was closed.
	outputTimeout = 15 * time.Second
	// collectTimeout bounds copying files out of the agent's container.
	collectTimeout = 2 * time.Minute
)

// Options configures one trial. Backend, Secrets, Entered and Called are required.
type Options struct {
	Backend sandbox.Opener
	Secrets *secret.Set // values to redact in everything that is written
	// Connect returns the judge for graders; required if the trial has a judge.
	Connect func(evidence.Judge) (Judge, error)
	// ServerLog returns a writer for a server's stderr; may be nil.
	ServerLog func(t *plan.Trial, server string) io.Writer
	// Say prints a message to a user who waits for a service; may be nil.
	Say func(string)
	// Hold is called with a trial's sandbox when its evidence is complete. The sandbox is kept
	// until Hold returns. May be nil.
	Hold func(ctx context.Context, t *plan.Trial, s sandbox.Sandbox)
	// Entered is called when the trial enters a phase. Called is called when the agent calls a
	// tool and when the call is answered.
	Entered func(evidence.Phase)
	Called  func(Calling)
	// Wall is the wall clock time at the trial's start.
	Wall time.Time

	// Shared are the servers that the run shares; nil if the trial has none.
	Shared *SharedServers
	// Baseline is the same trial without skills, if a grader compares with it.
	Baseline *evidence.BaselineTrial
	// Weak names the attacks that get out of sandboxes and that the run allows.
	Weak []string
	// HostHooks means that hooks of the run run on the host. Start is the directory in which
	// hooks of the trial on the host start; empty for the current one.
	HostHooks bool
	Start     string
}

// Run runs t in its own sandbox, writes evidence to dir, and returns the content of trial.json.
// If ctx is done, Run returns nil and writes no trial.json, as after a crash. The error is an
// error of the runner: evidence could not be written, or cleaning up an interrupted trial failed.
func Run(ctx context.Context, t *plan.Trial, dir evidence.Dir, o Options) (*evidence.Trial, error) {
	rec, err := evidence.Create(string(dir), o.Secrets, evidence.StartClock(o.Wall))
	if err != nil {
		return nil, err
	}
	log, err := newObserver(t, rec, o)
	if err != nil {
		return nil, errors.Join(err, rec.Close())
	}
	all := everything{plan: t, o: o, began: rec.Now()}
	var down teardown
	broke := evidence.CheckSpace(string(dir))
	if broke == nil {
		broke = all.phases(ctx, log, &down)
	}
	all.failed = failure{rec.Now(), broke}
	interrupted := broke != nil && ctx.Err() != nil
	if interrupted {
		rec.Event(evidence.Event{Kind: "interrupted", Message: broke.Error()})
	}
	closed := errors.Join(down.run(ctx), rec.Close(), dir.Sync())
	if interrupted {
		return nil, closed
	}
	if broke == nil {
		all.failed.at = rec.Now()
	}
	if missed := log.misses.get(); missed.err != nil {
		all.failed.at, broke = missed.at, missed.err
	}
	all.failed.err, all.down = errors.Join(broke, closed), down.found
	if all.ended.IsZero() {
		all.ended = rec.Now()
	}
	all.missing = rec.Lost()
	written, err := writeRecord(dir, all.redacted(conclude(all), rec), rec)
	return &written, err
}

// phases runs the phases of a trial and keeps their results. The error is a failure that the agent
// did not cause.
func (all *everything) phases(ctx context.Context, log observer, down *teardown) error {
	s, err := all.inSandbox(ctx, log, down)
	if err != nil {
		return err
	}
	calls := log.captured()
	if all.complaint, err = readBack(log, *all, calls); err != nil {
		return err
	}
	if all.o.Hold == nil && asksPrograms(all.plan) { // their sandboxes need the resources of this one
		if err := down.run(ctx); err != nil {
			return err
		}
		all.down = down.found
	}
	if all.unfit, err = runPrograms(ctx, s, *all, all.plan.Task, calls); err != nil || all.o.Hold == nil {
		return err
	}
	all.ended = log.Now()
	return hold(ctx, s, down)
}

// inSandbox runs the phases that need the trial's sandbox, and measures what its containers used.
func (all *everything) inSandbox(ctx context.Context, log observer, down *teardown) (s *stage, err error) {
	s, err = start(ctx, all.plan, all.o, log, down)
	all.opened = s.opened
	defer func() { all.resources = measure(ctx, s.containers(), all.ran.used(), log.Recorder) }()
	if err != nil {
		return s, err
	}
	if all.ran, err = run(ctx, s, down); err != nil {
		return s, err
	}
	if all.left, err = collect(ctx, s, all.ran, false); err != nil {
		return s, err
	}
	if missed := log.misses.get(); missed.err != nil {
		return s, missed.err
	}
	if err := ask(ctx, s); err != nil {
		return s, err
	}
	if all.ran.ending.ended { // graders do not see the effects of these hooks
		if err := runHooksAfter(ctx, s); err != nil {
			return s, err
		}
	}
	return s, cmp.Or(context.Cause(ctx), log.misses.get().err)
}

// stage is an open sandbox in which the servers have answered and the hooks before the agent have
// run. It does not change after start.
type stage struct {
	plan      *plan.Trial
	o         Options
	log       observer // to which phases append
	spec      *sandbox.Spec
	sandbox   sandbox.Sandbox      // nil if it did not open
	opened    *evidence.Guarantees // of the sandbox, once it is open
	servers   *servers
	endpoints *endpoints // the agent's; nil until it can run
}

// start opens the sandbox, starts the servers, fills the workspace, runs the hooks before the agent
// and opens the agent's endpoints. On error the stage holds what has started.
func start(ctx context.Context, t *plan.Trial, o Options, log observer, down *teardown) (s *stage, err error) {
	o.Entered(evidence.PhaseStart)
	s = &stage{plan: t, o: o, log: log, spec: t.Spec(), servers: &servers{}}
	if s.sandbox, err = openSandbox(ctx, o.Backend, s.spec, log, down); err != nil {
		return s, withReason(evidence.ReasonSandbox, err)
	}
	defer func() { err = s.unlessOutside(ctx, withReason(evidence.ReasonSandbox, err)) }()
	s.opened = new(s.sandbox.Guarantees())
	o.Entered(evidence.PhaseProbe)
	if s.servers, err = startServers(ctx, t, o, log, s.sandbox, down); err != nil {
		return s, withReason(evidence.ReasonServer, err)
	}
	if err := fillWorkspace(ctx, s.sandbox, t, log.Recorder); err != nil {
		return s, err
	}
	if err := runHooksBefore(ctx, s, down); err != nil {
		return s, err
	}
	models, err := openGateway(t, log)
	if err != nil {
		return s, err
	}
	if s.endpoints, err = openEndpoints(ctx, s, log, models, t.Agent.Egress); err != nil {
		return s, err
	}
	down.add(part{stop: s.endpoints.close})
	return s, nil
}

// run runs the agent until its sessions with servers have ended.
func run(ctx context.Context, s *stage, down *teardown) (agentRun, error) {
	s.o.Entered(evidence.PhaseAgent)
	ran, err := runAgent(ctx, s, down)
	if err != nil {
		return ran, err
	}
	s.o.Entered(evidence.PhaseCollect)
	if err := s.endpoints.drain(ctx); err != nil {
		return ran, err
	}
	ran.drained = s.log.Now()
	ran.ending.overspent, ran.refused, ran.unmet = s.endpoints.overspent(), s.endpoints.refused(), s.endpoints.answers.firstUnmet()
	return ran, nil
}

// collect copies what the agent left into the evidence. midway means that the agent will go on. On
// error it returns what was collected; the agent did not cause the error.
func collect(ctx context.Context, s *stage, ran agentRun, midway bool) (collected, error) {
	c := &collector{
		sandbox: s.sandbox, containers: s.withAgent(), plan: s.plan, rec: s.log.Recorder,
		found: collected{final: ran.stdout, midway: midway},
	}
	err := c.collect(ctx, ran.turns.earlier)
	c.found.at = s.log.Now()
	return c.found, err
}

// ask makes the calls and reads the files that graders ask for, and closes the agent's endpoints.
func ask(ctx context.Context, s *stage) error {
	err := askServers(ctx, s)
	return errors.Join(err, s.endpoints.close(ctx))
}

// hold keeps the sandbox and its servers running so that a person can look at them. What they
// do is not recorded, and models are not available.
func hold(ctx context.Context, s *stage, down *teardown) error {
	e, err := openEndpoints(ctx, s, discard{}, nil, nil)
	if err != nil {
		if ctx.Err() != nil {
			return nil // the evidence was complete before
		}
		return err
	}
	down.add(part{stop: e.close})
	s.o.Hold(ctx, s.plan, s.sandbox)
	return nil
}

// discard is a recorder that discards everything.
type discard struct{}

func (discard) Frame(evidence.Frame) int64 { return 1 }

func (discard) Event(evidence.Event) {}

// teardown is what has to be cleaned up at the end of a trial.
type teardown struct {
	parts []part
	found remains
}

// remains are what cleaning up found.
type remains struct {
	shared []evidence.SharedServer // shared servers that the trial has left
	strays []failure               // errors of removing a sandbox, caused by what its programs left
}

// part is something that was started. To tear down, all parts are stopped, in reverse order;
// then all are awaited, in reverse order. Either function may be nil.
type part struct{ stop, await func(context.Context) error }

func (d *teardown) add(p part) { d.parts = append(d.parts, p) }

// run tears down all parts that were added since the last run.
func (d *teardown) run(ctx context.Context) error {
	parts := d.parts
	d.parts = nil
	var errs []error
	for _, p := range slices.Backward(parts) {
		if p.stop != nil {
			errs = append(errs, p.stop(ctx))
		}
	}
	for _, p := range slices.Backward(parts) {
		if p.await != nil {
			errs = append(errs, p.await(ctx))
		}
	}
	return errors.Join(errs...)
}

// openSandbox opens a sandbox, which down closes.
func openSandbox(ctx context.Context, backend sandbox.Opener, spec *sandbox.Spec, log observer, down *teardown) (sandbox.Sandbox, error) {
	sb, err := backend.Open(ctx, spec, log.Event)
	if err != nil {
		return nil, err
	}
	down.add(part{stop: func(ctx context.Context) error {
		err := closeSandbox(ctx, sb)
		if errors.Is(err, sandbox.ErrLeft) {
			down.found.strays = append(down.found.strays, failure{log.Now(), err})
			return nil
		}
		return err
	}})
	return sb, nil
}

// closeSandbox closes a sandbox, with its own timeout, since earlier steps may have used up theirs.
func closeSandbox(ctx context.Context, s sandbox.Sandbox) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return s.Close(ctx)
}

// outputEnd waits for the end of an output after its sandbox was closed.
func outputEnd(ended <-chan struct{}, what string) error {
	if !process.Within(ended, outputTimeout) {
		return fmt.Errorf("%s did not end with its sandbox", what)
	}
	return nil
}
