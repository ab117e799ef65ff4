// Package trial runs one planned trial: it opens a sandbox, starts the servers, runs the agent
// behind recording proxies, collects what the agent left, does what graders ask for, and cleans
// up. It writes evidence to a directory.
//
// It grades only checkpoints, and does not retry; see package runner.
package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/mcp/proxy"
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
// If ctx is done, Run returns nil and writes no trial.json, as after a crash. The error is a
// error of the runner: evidence could not be written, or cleaning up an interrupted trial failed.
func Run(ctx context.Context, t *plan.Trial, dir evidence.Dir, o Options) (*evidence.Trial, error) {
	rec, err := evidence.Create(string(dir), o.Secrets, evidence.StartClock(o.Wall))
	if err != nil {
		return nil, err
	}
	r, err := newRecording(t, rec, o)
	if err != nil {
		return nil, errors.Join(err, rec.Close())
	}
	r.record.Baseline = o.Baseline
	var down teardown
	broke := evidence.CheckSpace(string(dir))
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
		r.add(ourFailure(err))
	}
	if r.record.Ended.IsZero() {
		r.record.Ended = rec.Now()
	}
	written, err := r.writeRecord(dir)
	return &written, err
}

// phases starts a trial, runs its agent, collects what that left and asks what graders want to know.
// It adds to down what is started. It returns failures before the agent's start and failures of ours;
// the agent's failures go into the record.
func (r *recording) phases(ctx context.Context, down *teardown) error {
	s, err := r.start(ctx, down)
	if err != nil {
		return err
	}
	ran, err := s.run(ctx, down)
	if err == nil {
		err = s.collect(ctx, ran.stdout, ran.turns.earlier, false)
	}
	if err == nil {
		err = s.ask(ctx, ran)
	}
	s.measure(ctx, ran.used)
	if err != nil {
		return err
	}
	if err := r.compareListed(); err != nil {
		return err
	}
	if r.o.Hold == nil && len(asksOf(r.plan, evidence.StepProgram)) > 0 { // the programs' sandboxes need the resources
		if err := down.run(ctx); err != nil {
			return err
		}
	}
	if err := r.runPrograms(ctx, r.plan.Task); err != nil {
		return err
	}
	if r.o.Hold != nil {
		return s.hold(ctx, down)
	}
	return nil
}

// start opens the sandbox, starts the servers, fills the workspace, runs the hooks before the agent and
// opens its endpoints.
func (r *recording) start(ctx context.Context, down *teardown) (*stage, error) {
	r.o.Entered(evidence.PhaseStart)
	spec := r.plan.Spec()
	sb, err := r.openSandbox(ctx, spec, down)
	if err != nil {
		return nil, withReason(evidence.ReasonSandbox, err)
	}
	r.o.Entered(evidence.PhaseProbe)
	servers, err := startServers(ctx, r, sb, down)
	s := &stage{recording: r, spec: spec, sandbox: sb, servers: servers}
	if err = withReason(evidence.ReasonServer, err); err == nil {
		err = withReason(evidence.ReasonSandbox, s.fill(ctx, down))
	}
	if err != nil {
		err = s.unlessOutside(ctx, err)
		s.measure(ctx, nil)
		return nil, err
	}
	return s, nil
}

// run runs the agent until its sessions with servers have ended.
func (s *stage) run(ctx context.Context, down *teardown) (agentRun, error) {
	s.o.Entered(evidence.PhaseAgent)
	ran, err := runAgent(ctx, s, down)
	s.keepRun(ran)
	if err != nil {
		return ran, err
	}
	s.o.Entered(evidence.PhaseCollect)
	if err := s.endpoints.drain(ctx); err != nil {
		return ran, err
	}
	s.add(s.endpoints.refusals()...)
	if ran.unexpected {
		return ran, judgeScript(s)
	}
	s.add(s.endpoints.answers.notes()...)
	return ran, nil
}

// collect collects what the agent left, with what it said on stdout and before its last turn. The agent
// goes on if midway is set.
func (s *stage) collect(ctx context.Context, stdout finalOutput, before string, midway bool) error {
	c := &collector{sandbox: s.sandbox, containers: s.withAgent(), plan: s.plan, rec: s.rec, midway: midway}
	err := c.collect(ctx, stdout, before)
	s.keep(c.left)
	return err
}

// ask makes the calls and reads the files that graders ask for. Then it runs the hooks after the agent,
// whose doings graders thus do not see.
func (s *stage) ask(ctx context.Context, ran agentRun) error {
	err := s.askServers(ctx, s.endpoints.proxy)
	if err := errors.Join(err, s.endpoints.close(ctx)); err != nil {
		return err
	}
	if ran.over {
		if err := hooksOf(s, s.endpoints).after(ctx); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// teardown is the list of what has to be cleaned up at the end of a trial.
type teardown []part

// part is something that was started. To tear down, all parts are stopped, in reverse order;
// then all are awaited, in reverse order. Either function may be nil.
type part struct{ stop, await func(context.Context) error }

func (d *teardown) add(p part) { *d = append(*d, p) }

// run tears down all parts that were added since the last run.
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

// closeSandbox returns a function that closes a sandbox, with its own timeout, since earlier
// steps may have used up theirs.
func closeSandbox(s sandbox.Sandbox) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		return s.Close(ctx)
	}
}

// outputEnd waits for the end of an output after its sandbox was closed.
func outputEnd(ended <-chan struct{}, what string) error {
	if !process.Within(ended, outputTimeout) {
		return fmt.Errorf("%s did not end with its sandbox", what)
	}
	return nil
}

// stage is a trial's sandbox with its servers.
type stage struct {
	*recording
	spec      *sandbox.Spec
	sandbox   sandbox.Sandbox
	servers   *servers
	endpoints *endpoints // the agent's; nil until it can run
}

// askServers makes the calls and reads the files that graders ask for. p is nil if servers cannot be called.
func (s *stage) askServers(ctx context.Context, p *proxy.Proxy) error {
	return asker{s.servers, p, s.withAgent(), s.rec}.askAll(ctx, asksOf(s.plan, evidence.StepCall, evidence.StepFiles))
}

// runPrograms runs the programs that graders ask for.
func (r *recording) runPrograms(ctx context.Context, task string) error {
	asks := asksOf(r.plan, evidence.StepProgram)
	if len(asks) == 0 {
		return nil
	}
	p := &programs{backend: r.o.Backend, plan: r.plan, rec: r.rec, secrets: r.o.Secrets, task: task, trial: r.redacted(), captured: r.captured}
	err := p.runAll(ctx, asks)
	r.add(p.notes...)
	return err
}

// openSandbox opens a sandbox, whose guarantees are those of the record.
func (r *recording) openSandbox(ctx context.Context, spec *sandbox.Spec, down *teardown) (sandbox.Sandbox, error) {
	sb, err := r.o.Backend.Open(ctx, spec, r.observer().Event)
	if err != nil {
		return nil, err
	}
	down.add(part{stop: func(ctx context.Context) error {
		err := closeSandbox(sb)(ctx)
		if errors.Is(err, sandbox.ErrLeft) {
			r.blame(evidence.ClassAgentError, evidence.ReasonOutput, err.Error())
			return nil
		}
		return err
	}})
	r.keepGuarantees(sb.Guarantees())
	return sb, nil
}

// fill puts the agent's files into its container, runs the hooks before it and opens its endpoints.
func (s *stage) fill(ctx context.Context, down *teardown) (err error) {
	if err := fillWorkspace(ctx, s.sandbox, s.plan, s.rec); err != nil {
		return err
	}
	if err := runHooks(ctx, s, down); err != nil {
		return err
	}
	s.endpoints, err = openEndpoints(ctx, s, s.observer(), openGateway(s.plan.Models, s.observer()), s.plan.Agent.Egress)
	if err != nil {
		return err
	}
	down.add(part{stop: s.endpoints.close})
	return nil
}

// keepGuarantees records what the sandbox guarantees, and what weakens it: settings without effect,
// shared servers, egress, hooks on the host and allowed attacks.
func (r *recording) keepGuarantees(g evidence.Guarantees) {
	if r.plan.Models != nil && !r.plan.Isolated() {
		g.Missing = append(g.Missing, "any program of this machine could ask the agent's models on loopback, with the runner's keys")
	}
	for _, name := range r.plan.NotEnforced {
		g.Missing = append(g.Missing, name+" had no effect")
	}
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

// hold keeps the sandbox and its servers running so that a person can look at them. What they
// do is not recorded, and models are not available.
func (s *stage) hold(ctx context.Context, down *teardown) error {
	s.record.Ended = s.rec.Now()
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
