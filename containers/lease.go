package containers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/mount"

	"github.com/waza-isolate/waza/internal/proc"
	"github.com/waza-isolate/waza/internal/retry"
	"github.com/waza-isolate/waza/sandbox"
)

const (
	leaseMemory = 64 << 20
	leasePids   = 64
	// takingLease is how long a run may be between creating its lease and starting it.
	takingLease = 30 * time.Second
	// dying is how long containers of a dead runner may run on: their guests end when
	// the engine closes their stdin, or when nobody answers their keepalive.
	dying = 15 * time.Second

	// filesDir is where the lease's container has the volume of its run's files.
	filesDir = "/files"
)

// filesVolume returns the name of the volume of a run's files.
func filesVolume(run string) string { return "waza-" + run + "-files" }

// lease is what shows that a run is alive: a container that ends with its runner, like
// every container of ours, wherever that runs. It needs no renewal and trusts no clock. A
// run owns nothing before it holds its lease, and a run whose lease does not run is dead.
type lease struct {
	starter
	run   string
	guest imageInfo

	mu   sync.Mutex
	held *heldLease // nil while there is none; guarded by mu
}

// heldLease is a lease that is held, with the resources that the run has while it holds it.
type heldLease struct {
	*startedContainer
	users *pool  // numbers for the users of the run's containers
	files string // where the engine keeps the volume of the run's files
}

// hold returns the run's lease, and takes it anew if it has ended: with the engine, as a
// rule.
func (l *lease) hold(ctx context.Context) (*heldLease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		select {
		case <-l.held.guest.Done():
		default:
			return l.held, nil
		}
		if err := l.dropLocked(ctx); err != nil {
			return nil, fmt.Errorf("lease: %w", err)
		}
	}
	started, err := l.take(ctx)
	if err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	l.held = &heldLease{startedContainer: started}
	files, err := l.engine.VolumeInspect(ctx, filesVolume(l.run))
	if err == nil {
		l.held.files = files.Mountpoint
		l.held.users, err = takeUsers(ctx, l.engine, l.run)
	}
	if err != nil { // the next to ask takes it anew
		return nil, errors.Join(fmt.Errorf("lease: %w", err), l.dropLocked(ctx))
	}
	return l.held, nil
}

// take starts the lease's container.
func (l *lease) take(ctx context.Context) (*startedContainer, error) {
	c := planContainer(containerRequest{
		run: l.run, trial: wholeRun, container: roleLease, role: roleLease, name: "waza-" + l.run + "-" + roleLease,
		limits: sandbox.Container{CPUs: 0.5, Memory: leaseMemory, Pids: leasePids}, image: l.guest, mode: "none",
		input: planInput{user: userRangeOf(l.engine.info).lease},
	})
	c.conf.NetworkDisabled = true
	c.host.SecurityOpt = append(c.host.SecurityOpt, "label=level:s0") // under SELinux, the files that it writes are for all
	c.host.Mounts = []mount.Mount{{
		Type: mount.TypeVolume, Source: filesVolume(l.run), Target: filesDir,
		VolumeOptions: &mount.VolumeOptions{Labels: labels(l.run, wholeRun, roleFiles)},
	}}
	for key, value := range home() {
		c.conf.Labels[key] = value
	}
	return l.start(ctx, c, "")
}

// dropLocked removes what is left of a lease that has ended. The run's numbers of users
// may be gone too: to whoever removes what dead runs left, the run is one.
func (l *lease) dropLocked(ctx context.Context) error {
	l.held.abandon()
	l.held = nil
	return l.engine.removeContainers(ctx, append(labelled(l.run, wholeRun), labelRole+"="+roleLease))
}

// takeOver takes the lease of a run whose runner is dead. Of several that try at once one
// gets it: the lease's name exists once.
func (l *lease) takeOver(ctx context.Context) error {
	if err := dropDeadLease(ctx, l.engine, l.run); err != nil {
		return err
	}
	_, err := l.hold(ctx)
	if errdefs.IsConflict(err) {
		return fmt.Errorf("%w: somebody else has just taken it up: %w", sandbox.ErrAlive, err)
	}
	return err
}

// dropDeadLease removes the lease of a run's dead runner, once it has ended.
func dropDeadLease(ctx context.Context, e *engine, run string) error {
	for begun := time.Now(); ; {
		found, err := e.containers(ctx, leases(run))
		if err != nil {
			return err
		}
		patience := time.Duration(0)
		for _, c := range found {
			switch {
			case !leaseLives(c.State, time.Unix(c.Created, 0), c.Labels, e.now()):
				if err := e.removeContainer(ctx, c.ID); err != nil {
					return err
				}
			case c.State == "created":
				patience = max(patience, takingLease)
			default:
				patience = max(patience, dying)
			}
		}
		if patience == 0 {
			return nil
		}
		if time.Since(begun) > patience {
			return fmt.Errorf("%w: its lease on the engine says so", sandbox.ErrAlive)
		}
		if err := retry.Sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// current returns the lease that is held; nil if none is.
func (l *lease) current() *heldLease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// home returns the labels that name this process.
func home() map[string]string {
	host, _ := os.Hostname()
	return map[string]string{
		labelHost:  host,
		labelBoot:  proc.BootID(),
		labelPIDs:  proc.Namespace(),
		labelPID:   strconv.Itoa(os.Getpid()),
		labelStart: processStart(os.Getpid()),
	}
}

// processStart returns when a process was started, ended or not; empty if that cannot be
// found out.
func processStart(pid int) string {
	start, _ := proc.StartTime(pid)
	return start
}

// leaseLives reports whether the run of a lease container is alive at a time of the
// engine's. One that is created and not yet running belongs to a run that is just
// starting, if its process still exists, or, where that cannot be seen from here, if it
// is young.
func leaseLives(state string, created time.Time, l map[string]string, now time.Time) bool {
	switch state {
	case "running", "paused":
		return true
	case "created":
	default:
		return false
	}
	pid, err := strconv.Atoi(l[labelPID])
	if err != nil || l[labelStart] == "" || !isHere(l) {
		return now.Sub(created) < takingLease
	}
	return processStart(pid) == l[labelStart]
}

// isHere reports whether the process of a lease has its number where this one has.
// Containers of one machine can have the same host name, and always have the same
// boot.
func isHere(l map[string]string) bool {
	here := home()
	for _, label := range []string{labelHost, labelBoot, labelPIDs} {
		if here[label] == "" || l[label] != here[label] {
			return false
		}
	}
	return true
}
