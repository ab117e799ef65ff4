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
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

const (
	// closeTimeout bounds draining the proxy, and again taking the sandbox down.
	closeTimeout = 90 * time.Second
	// collectTimeout bounds bringing files out of the agent's container.
	collectTimeout = 2 * time.Minute
)

// newAbove is how many parent directories may have been created with the trial's, and are
// synced with it: those of the task, of all trials, and of the run.
const newAbove = 3

// Options is how one trial is run. Backend, Secrets, Room, Entered and Called are
// required.
type Options struct {
	Backend Backend
	Secrets *redact.Set
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
	// ServerLog gets a server's stderr as it comes; nil for none.
	ServerLog func(t *plan.Trial, server string) io.Writer
	// Connect finds the judge that a trial's graders ask; required where they do.
	Connect func(evidence.Judge) (Judge, error)
	// Hold is called with the trial's sandbox once its evidence is complete, and keeps it
	// standing until it returns; nil for none.
	Hold func(ctx context.Context, t *plan.Trial, s sandbox.Sandbox)
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
	r := newRecording(t, rec, o)
	r.record.Baseline = o.Baseline
	if r.canaries, err = scannerFor(t, rec); err != nil {
		return nil, errors.Join(err, rec.Close())
	}
	r.record.Watched = r.canaries.ways(t.Isolated())
	up := &running{}
	var broke error
	if r.shares, broke = o.Room(); broke == nil {
		broke = r.phases(ctx, up)
	}
	interrupted := broke != nil && ctx.Err() != nil
	if interrupted {
		rec.Event(evidence.Event{Kind: "interrupted", Message: broke.Error()})
	}
	closed := errors.Join(up.takeDown(ctx), rec.Close(), dir.Sync(newAbove))
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

// phases takes a trial through its phases: setup, agent, collect, steps. The caller takes
// down what up holds. It returns failures before the agent's start and failures of ours;
// what the agent does goes into the record.
func (r *recording) phases(ctx context.Context, up *running) error {
	s, err := r.setUp(ctx, up)
	if err != nil {
		return err
	}
	r.o.Entered(evidence.PhaseAgent)
	work := &agentWork{stage: s, endpoints: up.endpoints}
	up.agent, err = work.run(ctx)
	up.used = work.used
	if err != nil {
		return err
	}
	if up.agent.endsWithin(0) {
		if err := (hooks{s}).after(ctx); err != nil {
			return err
		}
	}
	r.o.Entered(evidence.PhaseCollect)
	if err := up.endpoints.drain(ctx); err != nil {
		return err
	}
	if err := (&collector{s}).collect(ctx); err != nil {
		return err
	}
	if err := (&asker{s}).askAll(ctx); err != nil {
		return err
	}
	(&meter{s, up.used}).measure(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := r.checkReported(); err != nil {
		return err
	}
	graders := &programs{recording: r}
	if r.o.Hold == nil {
		graders.makeRoom = up.takeDown
	}
	if err := graders.runAll(ctx); err != nil {
		return err
	}
	if r.o.Hold != nil {
		return s.hold(ctx, up)
	}
	return nil
}

// stage is a trial's sandbox with its servers, where the agent works.
type stage struct {
	*recording
	sandbox sandbox.Sandbox
	servers *servers
	found   map[string]string // where the agent finds servers, by name
}

// setUp does everything up to the agent's start.
func (r *recording) setUp(ctx context.Context, up *running) (_ *stage, err error) {
	r.o.Entered(evidence.PhaseStart)
	s := &stage{recording: r, servers: newServers(r)}
	if s.sandbox, err = r.o.Backend.Open(ctx, r.plan, r.observer().Event); err != nil {
		return nil, because(evidence.ReasonSandbox, err)
	}
	up.stage = s
	defer func() { err = s.excused(ctx, err) }()
	s.keepGuarantees()
	r.o.Entered(evidence.PhaseProbe)
	if err := s.servers.open(ctx, s.sandbox); err != nil {
		return nil, because(evidence.ReasonServer, err)
	}
	up.endpoints = s.newEndpoints()
	if s.found, err = up.endpoints.open(ctx, s.sandbox, r.observer(), r.plan.Models); err != nil {
		return nil, because(evidence.ReasonSandbox, err)
	}
	if err := up.endpoints.openOutlet(ctx, s.sandbox); err != nil {
		return nil, because(evidence.ReasonSandbox, err)
	}
	if err := (workspace{s}).fill(ctx); err != nil {
		return nil, because(evidence.ReasonSandbox, err)
	}
	return s, because(evidence.ReasonSandbox, (hooks{s}).before(ctx))
}

func (s *stage) newEndpoints() *endpoints {
	mocks := &commands{recording: s.recording, workspace: sandbox.LayoutOf(s.sandbox, sandbox.Agent).Workspace}
	return &endpoints{recording: s.recording, servers: s.servers.proxied, commands: mocks}
}

// keepGuarantees records what the sandbox guarantees, and what weakens that: shared servers,
// egress, hooks on the host and attacks that are allowed.
func (s *stage) keepGuarantees() {
	g := s.sandbox.Guarantees()
	for _, attack := range s.o.Weak {
		g.Missing = append(g.Missing, fmt.Sprintf("the attack %q gets out, which --allow-weak lets it", attack))
	}
	if s.plan.Hooks.OnHost() || s.o.HostHooks {
		g.Missing = append(g.Missing, "hooks of the eval run on the host, which --allow-host-hooks lets them")
	}
	if s.plan.Models != nil && s.plan.Isolated() {
		g.Enforced = append(g.Enforced, "models are asked by the runner, which alone has their keys")
	}
	for _, container := range s.plan.Outgoing() {
		g.Missing = append(g.Missing, fmt.Sprintf("%s may reach %s: what it sends there leaves the trial", container.Who, describeEgress(container.Allowed)))
	}
	for _, server := range s.plan.Servers {
		if server.Shared {
			g.Missing = append(g.Missing, fmt.Sprintf("server %q lives for the whole run: what one trial leaves in it another may find", server.Name))
		}
	}
	s.record.Guarantees = &g
}

// put puts files into a directory of a container.
func (s *stage) put(ctx context.Context, container, dir string, files []plan.File) error {
	return put(ctx, s.sandbox, container, dir, files)
}

// hold keeps the sandbox standing for a person to look at, its servers within
// reach. What they do there is no evidence any more, and models are not asked for it.
func (s *stage) hold(ctx context.Context, up *running) error {
	s.record.Ended = s.rec.Now()
	up.endpoints = s.newEndpoints()
	if _, err := up.endpoints.open(ctx, s.sandbox, nobody{}, nil); err != nil {
		if ctx.Err() != nil {
			return nil // the evidence was complete before
		}
		return err
	}
	s.o.Hold(ctx, s.plan, s.sandbox)
	return nil
}

// nobody takes frames and events and keeps none.
type nobody struct{}

func (nobody) Frame(evidence.Frame) int64 { return 0 }

func (nobody) Event(evidence.Event) {}

// running is what has to be taken down of a trial; nil is what never was there.
type running struct {
	stage     *stage
	endpoints *endpoints
	agent     *agentProcess
	used      *evidence.Usage // by the agent's container up to the agent's end; nil where that could not be seen
	once      sync.Once
}

// takeDown takes everything down, also where the trial never got far. The first call
// counts.
func (up *running) takeDown(ctx context.Context) (err error) {
	if up.stage != nil {
		up.once.Do(func() { err = up.end(ctx) })
	}
	return err
}

func (up *running) end(ctx context.Context) error {
	servers := up.stage.servers
	(&meter{up.stage, up.used}).measure(ctx)
	var errs []error
	if up.endpoints != nil {
		errs = append(errs, up.endpoints.drain(ctx))
	}
	servers.closeKeepers()
	servers.stop(ctx)
	errs = append(errs, up.closeSandbox(ctx), servers.await(ctx))
	servers.leaveShared()
	for _, log := range servers.logs {
		errs = append(errs, log.Close())
	}
	return errors.Join(errs...)
}

// closeSandbox has limits of its own: what came before may have used up others.
func (up *running) closeSandbox(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	err := up.stage.sandbox.Close(ctx)
	if up.agent == nil {
		return err
	}
	select {
	case <-up.agent.ended:
		return errors.Join(err, up.agent.kept)
	case <-ctx.Done():
		return errors.Join(err, errors.New("the agent's output did not end with its sandbox"))
	}
}

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
