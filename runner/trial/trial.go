// Package trial runs one planned trial: it opens a sandbox, has the servers answer, lets the
// agent run between proxies that record, collects what the agent left, does what graders ask
// for, and takes everything down. What happened is evidence in a directory.
//
// It grades nothing but checkpoints, and makes no further attempt: that is the run's.
package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

const (
	// closeTimeout bounds draining the proxy, and again taking a sandbox down.
	closeTimeout = 90 * time.Second
	// outputTimeout bounds waiting for the end of an output once its sandbox was closed.
	outputTimeout = 15 * time.Second
	// collectTimeout bounds bringing files out of the agent's container.
	collectTimeout = 2 * time.Minute
)

// Host is what trials need of the program that runs them. Secrets is required.
type Host struct {
	Secrets *redact.Set // values that are redacted from everything that is written
	// Connect finds the judge that a trial's graders ask; required where they do.
	Connect func(evidence.Judge) (Judge, error)
	// ServerLog gets a server's stderr as it comes; nil for none.
	ServerLog func(t *plan.Trial, server string) io.Writer
	// Hold is called with a trial's sandbox once its evidence is complete, and keeps it
	// standing until it returns; nil for none.
	Hold func(ctx context.Context, t *plan.Trial, s sandbox.Sandbox)
}

// Options is how one trial is run. Backend, Room, Entered and Called are required.
type Options struct {
	Host
	Backend Backend
	// Room reserves disk space for the trial's evidence and returns its shares, or the reason
	// why there is no space.
	Room func() (Shares, error)
	// Entered is called when the trial comes into a phase, and Called when the agent calls a
	// tool and when it has its answer.
	Entered func(evidence.Phase)
	Called  func(Calling)
	// Wall is the machine's time when the trial starts.
	Wall time.Time

	// Shared are the servers that live as long as the run; nil where the trial has none.
	Shared *SharedServers
	// Baseline is the same trial without skills, where a grader compares with it.
	Baseline *evidence.BaselineTrial
	// Weak names the attacks that get out of sandboxes, which the run is to bear.
	Weak []string
	// HostHooks says that hooks of the run run on the host, and Start is where those of the
	// trial start that do; empty for here.
	HostHooks bool
	Start     string
}

// Run runs t in a sandbox of its own, leaves its evidence in dir, and returns what
// trial.json has. A trial that ctx interrupted has no outcome: it returns nil and leaves,
// as after a crash, no trial.json. The error is only ever ours: that evidence could not be
// kept, or that something may be left of an interrupted trial.
func Run(ctx context.Context, t *plan.Trial, dir evidence.Dir, o Options) (*evidence.Trial, error) {
	rec, err := evidence.Create(string(dir), o.Secrets, evidence.StartClock(o.Wall))
	if err != nil {
		return nil, err
	}
	shares, broke := o.Room()
	r, err := newRecording(t, rec, shares, o)
	if err != nil {
		return nil, errors.Join(err, rec.Close())
	}
	r.record.Baseline = o.Baseline
	var down teardown
	if broke == nil {
		broke = r.phases(ctx, &down)
	}
	interrupted := broke != nil && ctx.Err() != nil
	if interrupted {
		rec.Event(evidence.Event{Kind: "interrupted", Message: broke.Error()})
	}
	closed := errors.Join(down.run(ctx), rec.Close(), dir.Sync())
	if interrupted {
		return nil, closed
	}
	if err := errors.Join(broke, closed); err != nil {
		r.blame(r.classOf(err), reasonOf(err), onceEach(err))
	}
	if r.record.Ended.IsZero() {
		r.record.Ended = rec.Now()
	}
	written, err := r.writeRecord(dir)
	return &written, err
}

// phases takes a trial through its phases, and adds to down what they start. It returns
// failures before the agent's start and failures of ours; what the agent does goes into the
// record.
func (r *recording) phases(ctx context.Context, down *teardown) error {
	r.o.Entered(evidence.PhaseStart)
	s, e, err := r.setUp(ctx, down)
	if err != nil {
		return err
	}
	if err := s.work(ctx, e, down); err != nil {
		return err
	}
	if err := r.compareListed(); err != nil {
		return err
	}
	if asks := r.asks(evidence.StepProgram); len(asks) > 0 {
		if r.o.Hold == nil { // each program has a sandbox of its own: make room for it
			if err := down.run(ctx); err != nil {
				return err
			}
		}
		if err := (programs{r, r.plan.Task}).runAll(ctx, asks); err != nil {
			return err
		}
	}
	if r.o.Hold != nil {
		return s.hold(ctx, down)
	}
	return nil
}

// work has the agent do its work, brings out what it left, asks servers what graders want to
// know, and measures what all of that took.
func (s *stage) work(ctx context.Context, e *endpoints, down *teardown) error {
	s.o.Entered(evidence.PhaseAgent)
	ran, err := runAgent(ctx, s, e, down)
	defer func() { meter{s}.measure(ctx, ran.used) }()
	if err != nil {
		return err
	}
	if ran.over {
		if err := (hooks{s, e.found}).after(ctx); err != nil {
			return err
		}
	}
	s.o.Entered(evidence.PhaseCollect)
	if err := e.drain(ctx); err != nil {
		return err
	}
	e.settle()
	if err := (collector{s}).collect(ctx); err != nil {
		return err
	}
	if err := (asker{s}).askAll(ctx); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// teardown is what has to be done to take a trial down.
type teardown []part

// part is something that was started. To take a trial down everything is stopped, the last
// part first; then every end is awaited, likewise. Either may be nil.
type part struct{ stop, await func(context.Context) error }

func (d *teardown) add(p part) { *d = append(*d, p) }

// run takes down all that was added since it was run last.
func (d *teardown) run(ctx context.Context) error {
	parts := *d
	*d = nil
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

// closeSandbox returns what closes a sandbox, within a limit of its own: what came before may
// have used up others.
func closeSandbox(s sandbox.Sandbox) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		return s.Close(ctx)
	}
}

// outputEnd waits for the end of an output whose sandbox was closed.
func outputEnd(ended <-chan struct{}, what string) error {
	if !process.Within(ended, outputTimeout) {
		return fmt.Errorf("%s did not end with its sandbox", what)
	}
	return nil
}

// stage is a trial's sandbox with its servers, where the agent works.
type stage struct {
	*recording
	sandbox sandbox.Sandbox
	servers *servers
}

// setUp does everything up to the agent's start. It returns the sandbox with its servers, and
// what the agent finds in it.
func (r *recording) setUp(ctx context.Context, down *teardown) (*stage, *endpoints, error) {
	sb, err := r.openSandbox(ctx, down)
	if err != nil {
		return nil, nil, because(evidence.ReasonSandbox, err)
	}
	r.o.Entered(evidence.PhaseProbe)
	servers, err := startServers(ctx, r, sb, down)
	s, e := &stage{r, sb, servers}, (*endpoints)(nil)
	if err = because(evidence.ReasonServer, err); err == nil {
		e, err = s.fill(ctx, down)
	}
	if err != nil {
		err = s.excused(ctx, err)
		meter{s}.measure(ctx, nil)
		return nil, nil, err
	}
	return s, e, nil
}

// openSandbox opens the trial's sandbox, in which nothing runs yet.
func (r *recording) openSandbox(ctx context.Context, down *teardown) (sandbox.Sandbox, error) {
	sb, err := r.o.Backend.Open(ctx, r.plan, r.observer().Event)
	if err != nil {
		return nil, err
	}
	down.add(part{stop: closeSandbox(sb)})
	r.keepGuarantees(sb.Guarantees())
	return sb, nil
}

// fill opens the agent's endpoints, puts its files into its container and runs the hooks that
// come before it.
func (s *stage) fill(ctx context.Context, down *teardown) (*endpoints, error) {
	e, err := openEndpoints(ctx, s, s.observer(), s.plan.Models, s.plan.Agent.Egress)
	if err != nil {
		return nil, because(evidence.ReasonSandbox, err)
	}
	down.add(part{stop: e.drain})
	if err := (workspace{s}).fill(ctx); err != nil {
		return nil, because(evidence.ReasonSandbox, err)
	}
	return e, because(evidence.ReasonSandbox, hooks{s, e.found}.before(ctx))
}

// keepGuarantees records what the sandbox guarantees, and what weakens that: shared servers,
// egress, hooks on the host and attacks that are allowed.
func (r *recording) keepGuarantees(g evidence.Guarantees) {
	for _, attack := range r.o.Weak {
		g.Missing = append(g.Missing, fmt.Sprintf("the attack %q gets out, which --allow-weak lets it", attack))
	}
	if r.plan.Hooks.OnHost() || r.o.HostHooks {
		g.Missing = append(g.Missing, "hooks of the eval run on the host, which --allow-host-hooks lets them")
	}
	if r.plan.Models != nil && r.plan.Isolated() {
		g.Enforced = append(g.Enforced, "models are asked by the runner, which alone has their keys")
	}
	for _, container := range r.plan.Outgoing() {
		g.Missing = append(g.Missing, fmt.Sprintf("%s may reach %s: what it sends there leaves the trial", container.Who, describeEgress(container.Allowed)))
	}
	for _, server := range r.plan.Servers {
		if server.Shared {
			g.Missing = append(g.Missing, fmt.Sprintf("server %q lives for the whole run: what one trial leaves in it another may find", server.Name))
		}
	}
	r.record.Guarantees = &g
}

// hold keeps the sandbox standing for a person to look at, its servers within
// reach. What they do there is no evidence any more, and models are not asked for it.
func (s *stage) hold(ctx context.Context, down *teardown) error {
	s.record.Ended = s.rec.Now()
	e, err := openEndpoints(ctx, s, nobody{}, nil, nil)
	if err != nil {
		if ctx.Err() != nil {
			return nil // the evidence was complete before
		}
		return err
	}
	down.add(part{stop: e.drain})
	s.o.Hold(ctx, s.plan, s.sandbox)
	return nil
}

// nobody takes frames and events and keeps none.
type nobody struct{}

func (nobody) Frame(evidence.Frame) int64 { return 0 }

func (nobody) Event(evidence.Event) {}

func newRecord(t *plan.Trial, started time.Time) evidence.Trial {
	servers := make([]evidence.ServerRecord, 0, len(t.Servers))
	for _, s := range t.Servers {
		servers = append(servers, evidence.ServerRecord{Name: s.Name, Transport: s.Transport, Image: s.Image, Mocked: s.Mock != nil})
	}
	return evidence.Trial{
		Run: t.Run, Task: t.Task, TaskName: t.TaskName, Number: t.Number, Attempt: max(t.Attempt, 1),
		Prompt: t.Agent.Prompt, Executor: t.Agent.Executor, Servers: servers, Graders: t.Graders, Judge: t.Judge, Attack: t.Attack, Canaries: t.Canaries,
		Plan: t.JSON(), Started: started,
	}
}

// Backend opens sandboxes. On error nothing is left behind.
type Backend interface {
	// Open makes a trial's network and containers and returns when process 1 of each
	// answers. Happenings inside go to observe until Close returns.
	Open(ctx context.Context, t *plan.Trial, observe func(evidence.Event)) (sandbox.Sandbox, error)
}
