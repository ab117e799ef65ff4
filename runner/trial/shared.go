package trial

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// SharedServers are the servers that live as long as the run: one per configuration. A server
// is opened for the first trial that needs it, and again if it has died.
type SharedServers struct {
	backend sandbox.Opener

	mu    sync.Mutex
	slots map[string]*slot // by configuration; guarded by mu
}

// NewSharedServers returns an empty set of servers on a backend.
func NewSharedServers(b sandbox.Opener) *SharedServers {
	return &SharedServers{backend: b, slots: map[string]*slot{}}
}

// slot holds the server of one configuration. Its name is random, since it becomes part of
// names that others can see, and a hash of the configuration could be used to guess secrets in
// it.
type slot struct {
	name    string
	mu      sync.Mutex // held while an instance is opened
	current *instance  // nil before the first; guarded by mu
	opened  int        // guarded by mu
}

// instance is a shared server from its start to its end.
type instance struct {
	name    string
	number  int // starts at 1
	sandbox sandbox.Sandbox
	host    *runningServer
	closing chan struct{} // closed when the run ends the server
	watch   sync.WaitGroup
	// canaries are those of the run's trials, which are all the same; nil for none.
	canaries *secret.Canaries

	mu    sync.Mutex
	users map[*serverStarter]struct{} // running trials; guarded by mu
	round int                         // incremented when users changes; guarded by mu
	idle  idleRecorder                // records while there are no users; guarded by mu
	died  string                      // why it ended by itself; guarded by mu
}

func newSlot(server string) *slot {
	return &slot{name: "shared-" + server + "-" + strings.ToLower(rand.Text()[:8])}
}

// configKey returns a key for everything that a server is started with. It contains secrets,
// and must only be compared.
func configKey(s plan.Server) string {
	data, err := json.Marshal(struct {
		Plan     plan.Server
		Expanded mcpconfig.Server
	}{s, s.Expanded})
	if err != nil { // plain data always marshals
		panic(err)
	}
	return string(data)
}

// join adds a trial as a user of the server of s, and opens the server if it is not running.
func (p *SharedServers) join(ctx context.Context, user *serverStarter, s plan.Server) (*instance, error) {
	key := configKey(s)
	p.mu.Lock()
	at := p.slots[key]
	if at == nil {
		at = newSlot(s.Name)
		p.slots[key] = at
	}
	p.mu.Unlock()

	at.mu.Lock()
	defer at.mu.Unlock()
	if at.current != nil && at.current.admit(user) {
		return at.current, nil
	}
	if dead := at.current; dead != nil {
		at.current = nil // it is closed only once, even if that fails
		if err := dead.close(ctx); err != nil {
			return nil, err
		}
		dead.deliver(user)
	}
	at.opened++
	i, err := p.openServer(ctx, user, s, at.name, at.opened)
	if err != nil {
		return nil, err
	}
	at.current = i
	return i, nil
}

// openServer opens a server. Events until it is ready are evidence of the trial that needs it.
func (p *SharedServers) openServer(ctx context.Context, user *serverStarter, s plan.Server, name string, number int) (_ *instance, err error) {
	i := &instance{name: s.Name, number: number, closing: make(chan struct{}), users: map[*serverStarter]struct{}{user: {}}}
	i.scanAs(user)
	i.sandbox, err = p.backend.Open(ctx, user.plan.ServerSpec(s, name, number, sandbox.LifeOfRun), i.Event)
	if err != nil {
		return nil, fmt.Errorf("server %q, which the run shares: %w", s.Name, err)
	}
	if i.host, err = startServer(ctx, i.sandbox, s, user.plan.EgressLimits, i, i.output, user.say); err == nil {
		err = user.probe(ctx, i.host)
	}
	i.watch.Go(i.await)
	if err != nil {
		return nil, errors.Join(err, i.close(ctx))
	}
	return i, nil
}

// await waits for the server to end.
func (i *instance) await() {
	var exited <-chan struct{}
	if program := i.host.resident(); program != nil {
		exited = program.Gone()
	}
	select {
	case <-i.sandbox.Gone(i.name):
		i.die("its container ended")
	case <-exited:
		i.die("its program ended")
	case <-i.closing:
	}
}

// output returns a writer that writes to an output of the server in every running trial.
func (i *instance) output(name string) io.Writer { return &sharedOutput{i, name} }

type sharedOutput struct {
	*instance
	name string
}

// Write never fails, so that the server is not blocked.
func (o *sharedOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for user := range o.users {
		_, _ = user.outputs[o.name].Write(p)
	}
	return len(p), nil
}

// Close stops all running servers.
func (p *SharedServers) Close(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, at := range p.slots {
		if at.current != nil {
			errs = append(errs, at.current.close(ctx))
		}
	}
	return errors.Join(errs...)
}

func (i *instance) close(ctx context.Context) error {
	close(i.closing)
	i.watch.Wait()
	i.host.stop(ctx)
	return errors.Join(closeSandbox(ctx, i.sandbox), i.host.await())
}

// admit adds a trial as a user, unless the server has died.
func (i *instance) admit(user *serverStarter) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.died != "" {
		return false
	}
	i.users[user] = struct{}{}
	i.round++
	i.idle.deliver(user.log.Recorder)
	return true
}

// leave removes a trial from the users, and records the server's open connections. The result
// includes why the server died, if it did.
func (i *instance) leave(user *serverStarter) evidence.SharedServer {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.host != nil && i.host.outlet != nil {
		for _, e := range i.host.outlet.Underway() {
			user.log.Recorder.Event(e)
		}
	}
	delete(i.users, user)
	i.round++
	return evidence.SharedServer{Name: i.name, Instance: i.number, Died: i.died}
}

// die records in every running trial that the server has died, and which trials are affected.
func (i *instance) die(why string) {
	i.mu.Lock()
	if i.died != "" {
		i.mu.Unlock()
		return
	}
	i.died = why
	users := slices.Collect(maps.Keys(i.users))
	i.mu.Unlock()
	var names []string
	for _, user := range users {
		names = append(names, user.plan.ID().String())
	}
	slices.Sort(names)
	i.Event(evidence.Event{
		Kind: "shared_server", Where: i.name,
		Message: fmt.Sprintf("the server, which the run shares, is gone: %s; trials at work: %s", why, strings.Join(names, ", ")),
		Data:    map[string]any{"instance": i.number, "trials": names},
	})
}

// An instance records events of its server in every running trial, or for the next trial if
// there is none.
var _ outsideRecorder = (*instance)(nil)

// scanAs makes the instance scan for the canaries of a trial. It is called once, before the
// server is started.
func (i *instance) scanAs(user *serverStarter) {
	if user.log.canaries != nil {
		i.canaries, i.idle.canaries = user.log.canaries.set, user.log.canaries.recordingTo(&i.idle)
	}
}

// Frame implements proxy.Recorder. It records nothing, as each trial's own proxy records
// frames.
func (i *instance) Frame(evidence.Frame) int64 { return 1 }

// Event implements proxy.Recorder.
func (i *instance) Event(e evidence.Event) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for user := range i.users {
		user.log.Event(e)
	}
	if len(i.users) == 0 {
		i.idle.Event(e)
		i.idle.canaries.event(e)
	}
}

// Named implements outsideRecorder.
func (i *instance) Named(container, host string) {
	i.forUsers(func(l *canaryScanner) { l.hostName(container, evidence.ByEgress, host) })
}

// forUsers calls one for the scanner of every running trial, or once for the idle recorder's if no
// trial runs.
func (i *instance) forUsers(one func(*canaryScanner)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for user := range i.users {
		one(user.log.canaries)
	}
	if len(i.users) == 0 {
		one(i.idle.canaries)
	}
}

// Tap implements outsideRecorder. A match is recorded in the trials that run when it is sent.
// Tap does not lock the instance, because leave holds the lock while it lists open connections.
func (i *instance) Tap(container, host string) io.Writer {
	if i.canaries == nil {
		return io.Discard
	}
	return &sharedTap{instance: i, through: i.canaries.Watch(func(found secret.FoundCanary) {
		i.forUsers(func(l *canaryScanner) { l.sent(container, host, found) })
	})}
}

// sharedTap scans one connection, which may outlive trials.
type sharedTap struct {
	*instance
	through *secret.CanaryWriter
	round   int // value of instance.round at the last write
}

// Write implements io.Writer. When the running trials have changed, canaries that were matched
// before are reported again.
func (t *sharedTap) Write(p []byte) (int, error) {
	t.mu.Lock()
	round := t.instance.round
	t.mu.Unlock()
	if round != t.round {
		t.round = round
		t.through.Again()
	}
	return t.through.Write(p)
}

// deliver gives a trial the events of a server that has ended.
func (i *instance) deliver(user *serverStarter) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.idle.deliver(user.log.Recorder)
}

// maxKept is how many events are kept for the next trial, not counting matches of canaries,
// which the scanner limits.
const maxKept = 2000

// idleRecorder keeps the events of a server while no trial is running, and scans for canaries.
type idleRecorder struct {
	canaries *canaryScanner // nil if the run has no canaries
	kept     []evidence.Event
	dropped  map[string]int // number by kind
}

// Event implements eventRecorder.
func (i *idleRecorder) Event(e evidence.Event) {
	if e.Kind != evidence.EventCanary && len(i.kept) >= maxKept {
		if i.dropped == nil {
			i.dropped = map[string]int{}
		}
		i.dropped[e.Kind]++
		return
	}
	e.Message += " (while no trial was at work)"
	i.kept = append(i.kept, e)
}

// deliver records the kept events and clears them.
func (i *idleRecorder) deliver(rec eventRecorder) {
	for _, e := range i.kept {
		rec.Event(e)
	}
	for _, kind := range slices.Sorted(maps.Keys(i.dropped)) {
		n := i.dropped[kind]
		rec.Event(evidence.Event{
			Kind: kind, Message: fmt.Sprintf("%d more of this kind are not on record, from while no trial was at work", n),
			Data: map[string]any{evidence.DataOmitted: n},
		})
	}
	i.kept, i.dropped, i.canaries = nil, nil, i.canaries.recordingTo(i)
}
