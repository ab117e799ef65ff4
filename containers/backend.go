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
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guests"
)

// Options configures how a run uses the engine.
type Options struct {
	Run string // unique id of the run
	// Resume means that an interrupted run with this id is resumed. Open fails with
	// sandbox.ErrAlive if it is still running.
	Resume bool
	// Guest is the static Linux executable that becomes process 1. Defaults to the embedded one, or
	// to this executable.
	Guest string
	// Digest returns the SHA-256 of an executable. Defaults to files.Digest.
	Digest func(path string) (string, error)
	// Network are the settings that image builds need to reach a registry.
	Network images.Network
	// Redact removes secrets from the output of builds; may be nil.
	Redact func(string) string
	// Work shows a build, a pull or a push until end is called, with its current step; may be nil.
	Work func(what string) (step func(string), end func())
}

// Backend runs sandboxes on a Docker engine. It implements sandbox.Backend and optional interfaces
// of backends.
type Backend struct {
	starter
	*builder
	engine    *engine
	run       string
	images    *imageStore
	lease     *lease
	networks  networks
	leftovers leftovers
	dirs      guests.Pool            // directories of trials in the run's volume of files
	seccomp   func() (string, error) // returns the profile of containers

	foreign bool // another process has the run; do not remove its volumes

	closeOnce sync.Once
	closeErr  error // set by closeOnce
}

var _ interface {
	sandbox.Backend
	sandbox.Reconnector
	sandbox.HostProber
} = (*Backend)(nil)

// Open connects to the engine and takes what a run needs: its lease, and a block of user ids
// for its containers.
func Open(ctx context.Context, o Options) (*Backend, error) {
	e, err := dialEngine(ctx)
	if err != nil {
		return nil, err
	}
	if o.Work != nil {
		e.work = o.Work
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	if o.Digest == nil {
		o.Digest = files.Digest
	}
	s := starter{engine: e, watch: startWatch(e), remote: new(atomic.Bool), library: sync.OnceValues(func() (*testcontainers.DockerProvider, error) { return newLibrary(e) })}
	b := &Backend{
		starter: s, builder: &builder{e, o.Run, o.Network, o.Redact}, engine: e, run: o.Run,
		images: newImageStore(e, o.Run), lease: &lease{starter: s, run: o.Run},
		networks: networks{e, o.Run, newSubnetPool()}, leftovers: leftovers{engine: e, run: o.Run, trials: map[string]func(){}},
		dirs: guests.NewPool(strconv.Itoa), seccomp: sync.OnceValues(seccompProfile),
	}
	if err := b.connect(ctx, o); err != nil {
		if ctx.Err() != nil { // report the interrupt, not the request that it canceled
			err = context.Cause(ctx)
		}
		b.foreign = errors.Is(err, sandbox.ErrAlive)
		return nil, errors.Join(err, b.Close(context.WithoutCancel(ctx)))
	}
	return b, nil
}

func (b *Backend) connect(ctx context.Context, o Options) (err error) {
	if o.Guest == "" {
		b.images.program, err = guestProgram(b.engine.arch(), o.Digest)
	} else {
		b.images.program, err = programAt(o.Guest, b.engine.arch(), o.Digest)
	}
	if err != nil {
		return err
	}
	for range 2 { // a concurrent gc may remove the image before the lease uses it
		if err = b.images.ensureGuest(ctx); err != nil {
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

// Close releases what belongs to the whole run. It may be called more than once.
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
			err = errors.Join(err, held.Close(ctx))
		}
		if !b.foreign {
			err = errors.Join(err, b.engine.removeVolumes(ctx, ofTrial(b.run, wholeRun)))
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

// Prepare implements sandbox.Backend. It gets all images.
func (b *Backend) Prepare(ctx context.Context, all []*sandbox.Spec, say func(string)) error {
	containers := containersOf(all)
	if err := b.engine.checkPlatforms(containers); err != nil {
		return err
	}
	if err := b.buildAll(ctx, containers, say); err != nil {
		return err
	}
	_, err := b.images.of(ctx, containers, say)
	return err
}

// containersOf returns the containers of sandboxes.
func containersOf(specs []*sandbox.Spec) (all []sandbox.ContainerSpec) {
	for _, s := range specs {
		all = append(all, s.Containers...)
	}
	return all
}

// Open implements sandbox.Opener.
func (b *Backend) Open(ctx context.Context, t *sandbox.Spec, observe func(evidence.Event)) (sandbox.Sandbox, error) {
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
		if errdefs.IsNotFound(err) { // an image was removed
			b.images.forget()
		}
		return nil, b.blame(ctx, held, err)
	}
	return s, nil
}

func (b *Backend) newSandbox(held *heldLease, t *sandbox.Spec, p trialPlan, observe func(evidence.Event)) *trialSandbox {
	return &trialSandbox{
		Sandbox: guests.Sandbox{Spec: t, Report: observe},
		backend: b, lease: held, plan: p, dir: b.dirs.Get(),
		containers: map[string]*startedContainer{}, network: taskNetwork{name: p.network, engine: b.engine},
	}
}

// planInputOf collects what planning a sandbox needs: its images, user ids, and the seccomp
// profile.
func (b *Backend) planInputOf(ctx context.Context, held *heldLease, t *sandbox.Spec) (s planInput, err error) {
	s.user = held.users.Get
	if s.images, err = b.images.of(ctx, t.Containers, func(string) {}); err != nil {
		return s, err
	}
	if err = b.images.addUsers(ctx, t.Containers, s.images); err != nil {
		return s, err
	}
	if s.seccomp, err = b.seccomp(); err != nil {
		return s, err
	}
	if s.seccomp == "" && t.Network == sandbox.NetworkBridge {
		return s, errors.New("the filter for containers on a bridge is built on Linux only; set config.isolation.network to airtight")
	}
	return s, nil
}

// blame wraps err in sandbox.ErrEngineGone if the engine has gone away. held is the lease at
// the start of the operation, or nil.
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

// Reconnect implements sandbox.Reconnector. It returns when the engine answers, the run holds
// its lease, and the leftovers of earlier trials are removed.
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

// Describe returns properties of the engine, and the digest of process 1's executable.
func (b *Backend) Describe() map[string]string {
	return map[string]string{
		"engine":         "docker",
		"id":             b.engine.info.ID,
		"guest":          b.images.program.sum,
		"version":        b.engine.info.ServerVersion,
		"api":            b.engine.ClientVersion(),
		"os":             b.engine.info.OperatingSystem,
		"kernel":         b.engine.info.KernelVersion,
		"storage_driver": b.engine.info.Driver,
		"cgroup":         b.engine.info.CgroupVersion,
		"transport":      b.transport(),
	}
}

// transport returns the transport of connections to the run's guests.
func (b *Backend) transport() string {
	if held := b.lease.current(); held != nil && held.Guest.Hello().Socket {
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

// HostProbe implements sandbox.HostProber. The container has the usual walls except for its
// network, and runs nothing untrusted.
func (b *Backend) HostProbe(ctx context.Context) (sandbox.HostProbe, error) {
	c := planOwn(b.run, roleHostProbe, sandbox.Container{CPUs: 1, Memory: hostProbeMemory, Pids: hostProbePids}, b.images.guest, userRangeOf(b.engine.info))
	c.host.NetworkMode = "host"
	c.host.Sysctls = nil       // they would apply to the host
	c.host.UsernsMode = "host" // required by an engine that maps users
	c.host.DNS, c.host.DNSSearch, c.host.DNSOptions = nil, nil, nil
	started, err := b.start(ctx, c, "")
	if err != nil {
		return nil, fmt.Errorf("host probe: %w", err)
	}
	return started, nil
}
