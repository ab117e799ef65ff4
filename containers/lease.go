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
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/internal/proc"
	"github.com/waza-isolate/waza/internal/retry"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guests"
)

const (
	leaseMemory = 64 << 20
	leasePids   = 64
	// takingLease is the maximum time between creating a run's lease and starting it.
	takingLease = 30 * time.Second
	// dying is how long containers of a dead runner may keep running. Their guests exit when
	// the engine closes their stdin, or when keepalives are not answered.
	dying = 15 * time.Second

	// filesDir is the mount point of the run's volume of files in the lease's container.
	filesDir = "/files"
)

// filesVolume returns the name of the volume of a run's files.
func filesVolume(run string) string { return volumeName("files", run) }

// lease shows that a run is alive. It is a container that ends with its runner, like all of our
// containers. It does not have to be renewed and does not depend on clocks. A run takes its
// lease before it creates anything else, and is dead if the lease is not running.
type lease struct {
	starter
	run   string
	guest imageInfo

	mu   sync.Mutex
	held *heldLease // nil if none is held; guarded by mu
}

// heldLease is a held lease with the resources of its run.
type heldLease struct {
	*startedContainer
	users guests.Pool // user ids for the run's containers
	files string      // path on the engine's host of the volume of the run's files
}

// hold returns the run's lease. If it has ended, usually because the engine was restarted, hold
// takes a new one.
func (l *lease) hold(ctx context.Context) (*heldLease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		select {
		case <-l.held.Guest.Done():
		default:
			return l.held, nil
		}
		if err := l.dropLocked(ctx); err != nil {
			return nil, fmt.Errorf("lease: %w", err)
		}
	}
	started, err := l.startContainer(ctx)
	if err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	l.held = &heldLease{startedContainer: started}
	files, err := l.engine.VolumeInspect(ctx, filesVolume(l.run), client.VolumeInspectOptions{})
	if err == nil {
		l.held.files = files.Volume.Mountpoint
		l.held.users, err = takeUsers(ctx, l.engine, l.run)
	}
	if err != nil { // the next call tries again
		return nil, errors.Join(fmt.Errorf("lease: %w", err), l.dropLocked(ctx))
	}
	return l.held, nil
}

// startContainer starts the lease's container.
func (l *lease) startContainer(ctx context.Context) (*startedContainer, error) {
	c := planOwn(l.run, roleLease, sandbox.Container{CPUs: 0.5, Memory: leaseMemory, Pids: leasePids}, l.guest, userRangeOf(l.engine.info))
	c.conf.NetworkDisabled = true
	c.host.SecurityOpt = append(c.host.SecurityOpt, "label=level:s0") // with SELinux, all containers can read the files that it writes
	c.host.Mounts = []mount.Mount{{
		Type: mount.TypeVolume, Source: filesVolume(l.run), Target: filesDir,
		VolumeOptions: &mount.VolumeOptions{Labels: labels(l.run, wholeRun, roleFiles)},
	}}
	for key, value := range processLabels() {
		c.conf.Labels[key] = value
	}
	return l.start(ctx, c, "")
}

// dropLocked removes what is left of an ended lease. The run's block of user ids may be gone
// too, since gc considers a run without lease dead.
func (l *lease) dropLocked(ctx context.Context) error {
	l.held.abandon()
	l.held = nil
	return l.engine.removeContainers(ctx, append(ofTrial(l.run, wholeRun), labelRole+"="+roleLease))
}

// takeOver takes the lease of a dead run. If several processes try at once, only one succeeds,
// because the name of the lease's container is unique.
func (l *lease) takeOver(ctx context.Context) error {
	if err := dropDeadLease(ctx, l.engine, l.run); err != nil {
		return err
	}
	_, err := l.hold(ctx)
	if errdefs.IsConflict(err) {
		return fmt.Errorf("%w: another process has just resumed it: %w", sandbox.ErrAlive, err)
	}
	return err
}

// dropDeadLease waits until the lease of a dead run has ended, and removes it.
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

// current returns the held lease, or nil.
func (l *lease) current() *heldLease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// processLabels returns labels that identify this process.
func processLabels() map[string]string {
	host, _ := os.Hostname()
	return map[string]string{
		labelHost:  host,
		labelBoot:  proc.BootID(),
		labelPIDs:  proc.Namespace(),
		labelPID:   strconv.Itoa(os.Getpid()),
		labelStart: processStart(os.Getpid()),
	}
}

// processStart returns the start time of a process, or "" if it is not known.
func processStart(pid int) string {
	start, _ := proc.StartTime(pid)
	return start
}

// leaseLives reports whether the run of a lease's container is alive. now is the engine's time.
// A created container that is not running belongs to a run that is just starting if its process
// exists or, if that cannot be determined from here, if the container is new.
func leaseLives(state container.ContainerState, created time.Time, l map[string]string, now time.Time) bool {
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

// isHere reports whether the process of a lease is in the same pid namespace as this process.
// Containers of a machine may share the host name, and always share the boot id.
func isHere(l map[string]string) bool {
	here := processLabels()
	for _, label := range []string{labelHost, labelBoot, labelPIDs} {
		if here[label] == "" || l[label] != here[label] {
			return false
		}
	}
	return true
}
