package containers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/containerd/errdefs"
	"github.com/testcontainers/testcontainers-go"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/retry"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guests"
	"github.com/waza-isolate/waza/sandbox/process"
)

// Options configures how a run uses the engine.
type Options struct {
	Run string // the run's id: a name that no other run has
	// Resume means that a run of this id has died, and is resumed. Open fails
	// with sandbox.ErrAlive if it has not.
	Resume bool
	// Guest is the static Linux executable that becomes process 1; empty for our
	// own.
	Guest string
	// Digest returns the SHA-256 of an executable; nil is files.Digest.
	Digest func(path string) (string, error)
	// Network is what builds of images need to reach a registry.
	Network images.Network
	// Redact takes secrets out of what builds say; nil takes out none.
	Redact func(string) string
}

// Backend runs trials on a Docker engine. It implements runner.Backend, and the optional
// interfaces of a backend's that an engine can.
type Backend struct {
	starter
	*builder
	engine    *engine
	run       string
	images    *imageStore
	lease     *lease
	networks  networks
	leftovers leftovers
	dirs      *pool                  // of trials in the volume of the run's files
	seccomp   func() (string, error) // returns the profile of every container

	foreign bool // the run is alive, and somebody else has it: its volumes are not ours

	closeOnce sync.Once
	closeErr  error // set by closeOnce
}

var _ interface {
	sandbox.Reconnector
	sandbox.HostProber
} = (*Backend)(nil)

// Open connects to the engine and takes what a run needs: its lease, and numbers for
// the users of its containers.
func Open(ctx context.Context, o Options) (*Backend, error) {
	e, err := dialEngine(ctx)
	if err != nil {
		return nil, err
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	if o.Digest == nil {
		o.Digest = files.Digest
	}
	s := starter{engine: e, watch: startWatch(e), apart: new(atomic.Bool), library: sync.OnceValues(func() (*testcontainers.DockerProvider, error) { return newLibrary(e) })}
	b := &Backend{
		starter: s, builder: &builder{e, o.Run, o.Network, o.Redact}, engine: e, run: o.Run,
		images: newImageStore(e, o.Run, o.Guest), lease: &lease{starter: s, run: o.Run},
		networks: networks{e, o.Run, newSubnetPool()}, leftovers: leftovers{engine: e, run: o.Run, trials: map[string]bool{}},
		dirs: newPool(strconv.Itoa), seccomp: sync.OnceValues(seccompProfile),
	}
	if err := b.open(ctx, o); err != nil {
		b.foreign = errors.Is(err, sandbox.ErrAlive)
		return nil, errors.Join(err, b.Close(context.WithoutCancel(ctx)))
	}
	return b, nil
}

func (b *Backend) open(ctx context.Context, o Options) (err error) {
	if b.images.executable == "" {
		if b.images.executable, err = guestExecutable(b.engine.arch()); err != nil {
			return err
		}
	}
	sum, err := o.Digest(b.images.executable)
	if err != nil {
		return err
	}
	for range 2 { // somebody's gc may remove an old image before the lease has it
		if err = b.images.ensureGuest(ctx, sum); err != nil {
			return err
		}
		b.lease.guest = b.images.guest
		if o.Resume {
			err = b.lease.takeOver(ctx)
		} else {
			_, err = b.lease.hold(ctx)
		}
		if !errdefs.IsNotFound(err) {
			break
		}
	}
	if err == nil && o.Resume {
		err = b.sweep(ctx)
	}
	return err
}

// sweep removes everything of the run except what this process holds.
func (b *Backend) sweep(ctx context.Context) error {
	return sweeper{b.engine}.sweepRun(ctx, b.run, b.lease.current())
}

// Close gives back what belongs to the whole run. It may be called twice.
func (b *Backend) Close(ctx context.Context) error {
	b.closeOnce.Do(func() { b.closeErr = b.close(ctx) })
	return b.closeErr
}

func (b *Backend) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	err := b.engine.answers(ctx)
	held := b.lease.current()
	switch {
	case err == nil:
		if b.leftovers.any() {
			err = b.sweep(ctx)
		}
		if held != nil {
			err = errors.Join(err, held.close(ctx))
		}
		if !b.foreign {
			err = errors.Join(err, b.engine.removeVolumes(ctx, labelled(b.run, wholeRun)))
		}
	case held != nil:
		held.abandon()
		fallthrough
	default:
		err = fmt.Errorf("what the run has on the engine is left to waza gc: %w", err)
	}
	b.watch.close()
	return errors.Join(err, b.engine.Close())
}

// Prepare has every image that trials need on the engine, before any trial starts. It
// calls say with what is being built or pulled.
func (b *Backend) Prepare(ctx context.Context, trials []*plan.Trial, say func(string)) error {
	if err := b.engine.checkPlatforms(trials); err != nil {
		return err
	}
	if err := b.buildAll(ctx, trials, say); err != nil {
		return err
	}
	_, err := b.images.ofTrials(ctx, trials, say)
	return err
}

// Open implements trial.Backend.
func (b *Backend) Open(ctx context.Context, t *plan.Trial, observe func(evidence.Event)) (sandbox.Sandbox, error) {
	held, err := b.lease.hold(ctx)
	if err != nil {
		return nil, b.blame(ctx, nil, err)
	}
	on, err := b.planInputOf(ctx, held, t)
	if err != nil {
		return nil, b.blame(ctx, held, err)
	}
	s := b.newSandbox(held, t, planTrial(t, on), observe)
	if err := s.apply(ctx, on.seccomp != ""); err != nil {
		if errdefs.IsNotFound(err) { // somebody has removed an image
			b.images.forget()
		}
		return nil, b.blame(ctx, held, err)
	}
	return s, nil
}

func (b *Backend) newSandbox(held *heldLease, t *plan.Trial, p trialPlan, observe func(evidence.Event)) *trialSandbox {
	return &trialSandbox{
		Sandbox: guests.Sandbox{Trial: t, Running: map[string]*guests.Container{}},
		backend: b, lease: held, trial: t, plan: p, dir: b.dirs.take(), observe: observe,
		containers: map[string]*startedContainer{}, network: taskNetwork{name: p.network, engine: b.engine},
	}
}

// planInputOf collects what planning the trial needs: its images, user numbers, and the seccomp
// profile.
func (b *Backend) planInputOf(ctx context.Context, held *heldLease, t *plan.Trial) (s planInput, err error) {
	s.user = held.users.take
	if s.images, err = b.images.ofTrials(ctx, []*plan.Trial{t}, func(string) {}); err != nil {
		return s, err
	}
	if err = b.images.addUsers(ctx, t, s.images); err != nil {
		return s, err
	}
	if s.seccomp, err = b.seccomp(); err != nil {
		return s, err
	}
	if s.seccomp == "" && t.Network == networkBridge {
		return s, errors.New("the filter for containers on a bridge is built on Linux only; set config.isolation.network to airtight")
	}
	return s, nil
}

// blame marks a failure to open a sandbox with sandbox.ErrEngineGone if the engine went
// away meanwhile. Held is the lease held before it, or nil.
func (b *Backend) blame(ctx context.Context, held *heldLease, err error) error {
	lives := b.engine.answers
	if held != nil {
		lives = held.engineLives
	}
	if ctx.Err() != nil || lives(ctx) == nil {
		return err
	}
	return fmt.Errorf("%w: %w", sandbox.ErrEngineGone, err)
}

// Reconnect implements sandbox.Reconnector: the engine answers, the run holds its lease,
// and nothing is left of trials that could not be taken down before.
func (b *Backend) Reconnect(ctx context.Context) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := b.engine.answers(ctx)
		if err == nil {
			_, err = b.lease.hold(ctx)
		}
		if err == nil {
			err = b.leftovers.remove(ctx)
		}
		if err == nil {
			return nil
		}
		if retry.Sleep(ctx, pause) != nil {
			return fmt.Errorf("the engine does not come back: %w", err)
		}
	}
}

// Describe names the engine and the executable that is process 1 on it.
func (b *Backend) Describe() map[string]string {
	return map[string]string{
		"engine":         "docker",
		"id":             b.engine.info.ID,
		"guest":          b.images.guest.executable,
		"version":        b.engine.info.ServerVersion,
		"api":            b.engine.ClientVersion(),
		"os":             b.engine.info.OperatingSystem,
		"kernel":         b.engine.info.KernelVersion,
		"storage_driver": b.engine.info.Driver,
		"cgroup":         b.engine.info.CgroupVersion,
		"transport":      b.transport(),
	}
}

// transport returns what carries the connections to the run's guests.
func (b *Backend) transport() string {
	if held := b.lease.current(); held != nil && held.guest.Hello().Socket {
		return "socket"
	}
	return "pipe"
}

// Size implements runner.Sized. It returns the size of the engine's machine.
func (b *Backend) Size() (cpus int, memory int64) { return b.engine.info.NCPU, b.engine.info.MemTotal }

// Images returns the images that were used, by reference.
func (b *Backend) Images() evidence.ImageRecords { return b.images.records() }

const (
	hostProbeMemory = 128 << 20
	hostProbePids   = 64
)

// hostProbe is a container of ours on the network of the engine's host.
type hostProbe struct{ *startedContainer }

// HostProbe implements sandbox.HostProber. The container has the walls of every other except
// for its network, and nothing foreign runs in it.
func (b *Backend) HostProbe(ctx context.Context) (sandbox.HostProbe, error) {
	c := planContainer(containerRequest{
		run: b.run, trial: wholeRun, container: roleHostProbe, role: roleHostProbe, name: "waza-" + b.run + "-" + roleHostProbe,
		limits: sandbox.Container{CPUs: 1, Memory: hostProbeMemory, Pids: hostProbePids}, image: b.images.guest, mode: "none",
		input: planInput{user: userRangeOf(b.engine.info).lease},
	})
	c.host.NetworkMode = "host"
	c.host.Sysctls = nil       // they would be the host's
	c.host.UsernsMode = "host" // else the engine refuses where it maps users
	c.host.DNS, c.host.DNSSearch, c.host.DNSOptions = nil, nil, nil
	started, err := b.start(ctx, c, "")
	if err != nil {
		return nil, fmt.Errorf("host probe: %w", err)
	}
	return hostProbe{started}, nil
}

// Start implements sandbox.HostProbe.
func (p hostProbe) Start(ctx context.Context, spec process.Spec) (process.Process, error) {
	return p.guest.Exec(ctx, spec, false)
}

// Close implements sandbox.HostProbe.
func (p hostProbe) Close(ctx context.Context) error { return p.close(ctx) }
