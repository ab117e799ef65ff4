package containers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/volume"
	"github.com/testcontainers/testcontainers-go"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// cleanupTimeout bounds taking away what one trial or run owns.
const cleanupTimeout = 60 * time.Second

// Options says how a run uses the engine.
type Options struct {
	Run string // the run's id: a name that no other run has
	// Resume says that a run of this id has died, and is to be taken up. Open fails
	// with sandbox.ErrAlive where it has not.
	Resume bool
	// Guest is the static Linux executable that becomes process 1; empty for our
	// own.
	Guest string
	// Digest tells the SHA-256 of an executable; nil is files.Digest.
	Digest func(path string) (string, error)
	// Network is what builds of images need to reach a registry.
	Network images.Network
	// Redact takes secrets out of what builds say; nil takes out none.
	Redact func(string) string
}

// Backend runs trials on a Docker engine. It implements trial.Backend.
type Backend struct {
	engine     *engine
	run        string
	executable string // what becomes process 1
	guest      imageInfo
	network    images.Network
	redact     func(string) string
	// seccomp is the profile of every container.
	seccomp func() (string, error)
	// library is testcontainers on our engine, set up for the first service.
	library func() (*testcontainers.DockerProvider, error)

	leasing sync.Mutex        // held while the lease is taken
	lease   *startedContainer // guarded by leasing

	mu      sync.Mutex
	pending map[string]bool      // labels of trials that could not be taken down; guarded by mu
	late    bool                 // more may come than is known of; guarded by mu
	images  map[string]imageInfo // by reference; guarded by mu
	userIDs map[userKey]string   // guarded by mu
	users   *pool                // guarded by mu
	subnets *subnetPool
	dirs    *pool  // of trials in the volume of the run's files
	files   string // where the engine keeps that volume; guarded by mu

	closeOnce sync.Once
	closeErr  error // set by closeOnce
}

var _ sandbox.HostProber = (*Backend)(nil)

// Open connects to the engine and puts up what a run needs: its lease, and numbers for
// the users of its containers.
func Open(ctx context.Context, o Options) (*Backend, error) {
	e, err := dialEngine(ctx)
	if err != nil {
		return nil, err
	}
	library := sync.OnceValues(func() (*testcontainers.DockerProvider, error) { return newLibrary(e) })
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	if o.Digest == nil {
		o.Digest = files.Digest
	}
	b := &Backend{
		engine: e, library: library, run: o.Run, network: o.Network, redact: o.Redact,
		seccomp: sync.OnceValues(seccompProfile), subnets: newSubnetPool(), dirs: newPool(strconv.Itoa),
		pending: map[string]bool{}, images: map[string]imageInfo{}, userIDs: map[userKey]string{},
	}
	if err := b.open(ctx, o); err != nil {
		return nil, errors.Join(err, b.Close(context.WithoutCancel(ctx)))
	}
	return b, nil
}

func (b *Backend) open(ctx context.Context, o Options) (err error) {
	if o.Guest == "" {
		if o.Guest, err = guestExecutable(b.engine.arch()); err != nil {
			return err
		}
	}
	sum, err := o.Digest(o.Guest)
	if err != nil {
		return err
	}
	b.executable = o.Guest
	b.engine.watch = startWatch(b.engine)
	for range 2 { // somebody's gc may take an old image away before the lease has it
		if b.guest, err = b.engine.ensureGuestImage(ctx, o.Guest, sum); err != nil {
			return err
		}
		b.images[""] = b.guest
		if o.Resume {
			err = b.takeOver(ctx)
		} else {
			_, err = b.leased(ctx)
		}
		if !errdefs.IsNotFound(err) {
			break
		}
	}
	return err
}

// Close gives back what belongs to the whole run. Closing twice is allowed.
func (b *Backend) Close(ctx context.Context) error {
	b.closeOnce.Do(func() { b.closeErr = b.close(ctx) })
	return b.closeErr
}

func (b *Backend) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	err := b.engine.answers(ctx)
	var swept error
	if err == nil && b.owes() {
		_, swept = b.engine.collect(ctx, b.sweepOwn)
	}
	b.leasing.Lock()
	defer b.leasing.Unlock()
	switch {
	case err == nil:
		err = b.giveBackLocked(ctx)
	case b.lease != nil:
		b.lease.abandon()
		fallthrough
	default:
		err = fmt.Errorf("what the run has on the engine is left to waza gc: %w", err)
	}
	if b.engine.watch != nil {
		b.engine.watch.close()
	}
	return errors.Join(swept, err, b.engine.Client.Close())
}

func (b *Backend) giveBackLocked(ctx context.Context) error {
	var errs []error
	if b.lease != nil {
		errs = append(errs, b.lease.close(ctx, b.engine))
	}
	return errors.Join(append(errs, b.engine.removeVolumes(ctx, labelled(b.run, wholeRun)))...)
}

// Open opens the sandbox of a trial.
func (b *Backend) Open(ctx context.Context, t *plan.Trial, observe func(evidence.Event)) (sandbox.Sandbox, error) {
	lease, err := b.leased(ctx)
	if err != nil {
		return nil, b.blame(ctx, nil, err)
	}
	s, err := b.scene(ctx, t)
	if err != nil {
		return nil, b.blame(ctx, lease, err)
	}
	ctr, err := b.apply(ctx, lease, t, s, observe)
	if errdefs.IsNotFound(err) { // somebody has removed an image
		b.forgetImages()
	}
	if err != nil {
		return nil, b.blame(ctx, lease, err)
	}
	return ctr, nil
}

func (b *Backend) forgetImages() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.images)
	b.images[""] = b.guest
}

// Describe names the engine and the executable that is process 1 on it.
func (b *Backend) Describe() map[string]string {
	return map[string]string{
		"engine":         "docker",
		"id":             b.engine.info.ID,
		"guest":          b.guest.executable,
		"version":        b.engine.info.ServerVersion,
		"api":            b.engine.ClientVersion(),
		"os":             b.engine.info.OperatingSystem,
		"kernel":         b.engine.info.KernelVersion,
		"storage_driver": b.engine.info.Driver,
		"cgroup":         b.engine.info.CgroupVersion,
	}
}

// Images tells what the images that were used are, by reference.
func (b *Backend) Images() evidence.ImageRecords {
	b.mu.Lock()
	defer b.mu.Unlock()
	records := make(evidence.ImageRecords, len(b.images))
	for ref, info := range b.images {
		if ref == "" {
			ref = guestRepository
		}
		records[ref] = evidence.ImageRecord{ID: info.id, Digests: info.digests}
	}
	return records
}

// scene collects what planning the trial needs: its images, user numbers, and the seccomp
// profile.
func (b *Backend) scene(ctx context.Context, t *plan.Trial) (scene, error) {
	b.mu.Lock()
	users, files := b.users, b.files
	b.mu.Unlock()
	s := scene{images: map[string]imageInfo{"": b.guest}, pool: users, user: users.take, files: files}
	for _, ref := range imagesOf(t) {
		info, err := b.image(ctx, ref, pullPolicy(ref, []*plan.Trial{t}), func(string) {})
		if err != nil {
			return s, err
		}
		s.images[ref] = info
	}
	var err error
	if s.users, err = b.namedUsers(ctx, t, s.images); err != nil {
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

// createVolume returns the volume of that name, which is another's where it was there.
func (b *Backend) createVolume(ctx context.Context, name, trial, role string) (volume.Volume, error) {
	ctx, cancel := creating(ctx)
	defer cancel()
	return b.engine.VolumeCreate(ctx, volume.CreateOptions{Name: name, Labels: labels(b.run, trial, role)})
}
