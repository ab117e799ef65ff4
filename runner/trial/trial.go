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
	"sync/atomic"
	"time"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

const (
	// closeTimeout bounds draining the proxy, and again taking the sandbox down.
	closeTimeout = 90 * time.Second
	// collectTimeout bounds bringing files out of the agent's box.
	collectTimeout = 2 * time.Minute
)

// newAbove is how many directories above a trial's may be as new as it: the task's,
// the trials', and the run's.
const newAbove = 3

// Options is how one trial is run. Backend, Secrets, Room, Entered and Called are
// required.
type Options struct {
	Backend Backend
	Secrets *redact.Set
	// Room gives the trial its shares of the disk, or says why there are none.
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

// trialRun is one trial under way.
type trialRun struct {
	o       Options
	plan    *plan.Trial
	rec     *evidence.Recorder
	record  evidence.Trial
	sandbox sandbox.Sandbox
	hosts   []*host              // of its servers; nil for one that did not come up
	servers []proxy.Server       // the same, as the proxy knows them
	turn    int                  // of the checkpoint that this is; 0 for the trial itself
	keepers map[string]*keeper   // of servers whose processes graders ask, by name
	shared  []*instance          // those of them that the run owns; guarded by mu
	outputs map[string]io.Writer // of servers and services
	shares  Shares               // of what is recorded
	logs    []io.Closer
	found   map[string]string // where the agent finds servers, by name
	agent   *attendance       // nil until the agent runs
	played  played            // commands of the agent's
	acted   atomic.Bool       // the agent said something, asked a model or called a tool
	proxy   *proxy.Proxy      // nil where nothing is served
	models  *modelGateway     // likewise, and where no model is asked
	lookout *lookout          // for canaries; nil where there are none
	calls   *callWatch
	outlet  *egress.Carrier // of the agent; nil where it may reach nothing outside
	// agentUsed is what the agent's box used up to the agent's end; nil where that
	// could not be seen.
	agentUsed *evidence.Usage
	serving   sync.WaitGroup
	ending    sync.Once

	mu sync.Mutex
}

func newTrialRun(t *plan.Trial, rec *evidence.Recorder, o Options) *trialRun {
	calls := &callWatch{secrets: o.Secrets, tell: o.Called}
	return &trialRun{o: o, plan: t, rec: rec, record: newRecord(t, rec.Now()), outputs: map[string]io.Writer{}, calls: calls}
}

// Run runs t in a sandbox of its own, leaves its evidence in dir, and says
// whether it has an outcome. One that ctx interrupted has none and, as after a
// crash, no trial.json. The error is only ever ours: that evidence could not be
// kept, or that something may be left of an interrupted trial.
func Run(ctx context.Context, t *plan.Trial, dir evidence.Dir, o Options) (ended bool, err error) {
	rec, err := evidence.Create(string(dir), o.Secrets, evidence.StartClock(o.Wall))
	if err != nil {
		return false, err
	}
	tr := newTrialRun(t, rec, o)
	tr.record.Baseline = o.Baseline
	if tr.lookout, err = lookoutFor(t, rec); err != nil {
		return false, errors.Join(err, rec.Close())
	}
	tr.record.Watched = tr.lookout.ways(t.Isolated())
	var broke error
	if tr.shares, broke = o.Room(); broke == nil {
		broke = tr.live(ctx)
	}
	interrupted := broke != nil && ctx.Err() != nil
	if interrupted {
		rec.Event(evidence.Event{Kind: "interrupted", Message: broke.Error()})
	}
	closed := errors.Join(tr.end(ctx), rec.Close(), dir.Sync(newAbove))
	if interrupted {
		return false, closed
	}
	if err := errors.Join(broke, closed); err != nil {
		tr.blame(tr.classOf(err), reasonOf(err), onceEach(err))
	}
	if tr.record.Ended.IsZero() {
		tr.record.Ended = rec.Now()
	}
	return true, tr.writeRecord(dir)
}

// live is a trial's life up to its end. What fails before the agent starts, and
// whatever fails on our side, is returned; what the agent does is in the record.
func (tr *trialRun) live(ctx context.Context) error {
	if err := tr.prepare(ctx); err != nil {
		return err
	}
	tr.o.Entered(evidence.PhaseAgent)
	if err := tr.runAgent(ctx); err != nil {
		return err
	}
	if err := tr.runAfter(ctx); err != nil {
		return err
	}
	tr.o.Entered(evidence.PhaseCollect)
	if err := tr.drain(ctx); err != nil {
		return err
	}
	if err := tr.collect(ctx); err != nil {
		return err
	}
	if err := tr.askServers(ctx); err != nil {
		return err
	}
	tr.measure(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := tr.checkTold(); err != nil {
		return err
	}
	if err := tr.runPrograms(ctx); err != nil {
		return err
	}
	if tr.o.Hold != nil {
		return tr.hold(ctx)
	}
	return nil
}

// prepare does everything up to the agent's start.
func (tr *trialRun) prepare(ctx context.Context) (err error) {
	tr.o.Entered(evidence.PhaseStart)
	tr.sandbox, err = tr.o.Backend.Open(ctx, tr.plan, tr.observer().Event)
	if err != nil {
		return because(evidence.ReasonSandbox, err)
	}
	defer func() { err = tr.excused(ctx, err) }()
	guarantees := tr.guarantees()
	tr.record.Guarantees = &guarantees
	tr.o.Entered(evidence.PhaseProbe)
	if err := tr.openServers(ctx); err != nil {
		return because(evidence.ReasonServer, err)
	}
	if err := tr.serve(ctx, tr.observer(), tr.plan.Models); err != nil {
		return because(evidence.ReasonSandbox, err)
	}
	if err := tr.openAgentOutlet(ctx); err != nil {
		return because(evidence.ReasonSandbox, err)
	}
	if err := tr.fillWorkspace(ctx); err != nil {
		return because(evidence.ReasonSandbox, err)
	}
	return because(evidence.ReasonSandbox, tr.runBefore(ctx))
}

// guarantees are the sandbox's, less what servers take away that outlive it.
func (tr *trialRun) guarantees() evidence.Guarantees {
	g := tr.sandbox.Guarantees()
	for _, attack := range tr.o.Weak {
		g.Missing = append(g.Missing, fmt.Sprintf("the attack %q gets out, which --allow-weak lets it", attack))
	}
	if tr.plan.Hooks.OnHost() || tr.o.HostHooks {
		g.Missing = append(g.Missing, "hooks of the eval run on the host, which --allow-host-hooks lets them")
	}
	if tr.plan.Models != nil && tr.plan.Isolated() {
		g.Enforced = append(g.Enforced, "models are asked by the runner, which alone has their keys")
	}
	for _, box := range tr.plan.Outgoing() {
		g.Missing = append(g.Missing, fmt.Sprintf("%s may reach %s: what it sends there leaves the trial", box.Who, describeEgress(box.Allowed)))
	}
	for _, s := range tr.plan.Servers {
		if s.Shared {
			g.Missing = append(g.Missing, fmt.Sprintf("server %q lives for the whole run: what one trial leaves in it another may find", s.Name))
		}
	}
	return g
}

// hold keeps the sandbox standing for a person to look at, its servers within
// reach. What they do there is no evidence any more, and models are not asked for it.
func (tr *trialRun) hold(ctx context.Context) error {
	tr.record.Ended = tr.rec.Now()
	if err := tr.serve(ctx, nobody{}, nil); err != nil {
		if ctx.Err() != nil {
			return nil // the evidence was complete before
		}
		return err
	}
	tr.o.Hold(ctx, tr.plan, tr.sandbox)
	return nil
}

// nobody takes frames and events and keeps none.
type nobody struct{}

func (nobody) Frame(evidence.Frame) int64 { return 0 }

func (nobody) Event(evidence.Event) {}

// end takes everything down, also where the trial never got far. The first call
// counts.
func (tr *trialRun) end(ctx context.Context) (err error) {
	tr.ending.Do(func() { err = tr.takeDown(ctx) })
	return err
}

func (tr *trialRun) takeDown(ctx context.Context) error {
	tr.measure(ctx)
	errs := []error{tr.drain(ctx)}
	tr.closeKeepers()
	tr.stopServers(ctx)
	errs = append(errs, tr.closeSandbox(ctx), tr.awaitServers(ctx))
	tr.leaveShared()
	for _, log := range tr.logs {
		errs = append(errs, log.Close())
	}
	return errors.Join(errs...)
}

// closeSandbox has limits of its own: what came before may have used up others.
func (tr *trialRun) closeSandbox(ctx context.Context) error {
	if tr.sandbox == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	err := tr.sandbox.Close(ctx)
	if tr.agent == nil {
		return err
	}
	select {
	case <-tr.agent.ended:
		return errors.Join(err, tr.agent.kept)
	case <-ctx.Done():
		return errors.Join(err, errors.New("the agent's output did not end with its sandbox"))
	}
}

// blame sets the outcome class and its reason. The first ones stay; a later
// message is added.
func (tr *trialRun) blame(class evidence.Class, reason evidence.Reason, message string) {
	if tr.record.Class == "" {
		tr.record.Class, tr.record.Reason, tr.record.Message = class, reason, message
		return
	}
	tr.record.Message += "; " + message
}

// gap says that evidence of a kind is missing, which graders that need it turn
// into an error.
func (tr *trialRun) gap(what string, err error) {
	tr.record.Gaps = append(tr.record.Gaps, fmt.Sprintf("%s: %v", what, err))
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
	// Open makes a trial's network and boxes and returns when process 1 of each
	// answers. Happenings inside go to observe until Close returns.
	Open(ctx context.Context, t *plan.Trial, observe func(evidence.Event)) (sandbox.Sandbox, error)
}
