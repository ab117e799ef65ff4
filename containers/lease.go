package containers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/mount"

	"github.com/waza-isolate/waza/internal/proc"
	"github.com/waza-isolate/waza/sandbox"
)

const (
	leaseMemory = 64 << 20
	leasePids   = 64
)

// takeLease starts the container that says a run is alive. It needs no renewal
// and trusts no clock: like every container of ours it ends with its runner,
// wherever that runs, so a run whose lease does not run is dead. A run owns nothing
// before it holds its lease.
func (b *Backend) takeLease(ctx context.Context) (*startedContainer, error) {
	c := planContainer(containerRequest{
		run: b.run, trial: wholeRun, container: roleLease, role: roleLease, name: "waza-" + b.run + "-" + roleLease,
		limits: sandbox.Container{CPUs: 0.5, Memory: leaseMemory, Pids: leasePids}, image: b.guest, mode: "none",
		scene: scene{user: b.engine.userRange().lease},
	})
	c.conf.NetworkDisabled = true
	c.host.SecurityOpt = append(c.host.SecurityOpt, "label=level:s0") // under SELinux, the files that it writes are for all
	c.host.Mounts = []mount.Mount{{
		Type: mount.TypeVolume, Source: filesVolume(b.run), Target: filesDir,
		VolumeOptions: &mount.VolumeOptions{Labels: labels(b.run, wholeRun, roleFiles)},
	}}
	for key, value := range home() {
		c.conf.Labels[key] = value
	}
	lease, err := b.engine.startContainer(ctx, c, "")
	if err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	return lease, nil
}

// filesVolume is the name of the volume of a run's files.
func filesVolume(run string) string { return "waza-" + run + "-files" }

// leased is the run's lease, which is taken anew where it has ended: with the
// engine, as a rule.
func (b *Backend) leased(ctx context.Context) (*startedContainer, error) {
	b.leasing.Lock()
	defer b.leasing.Unlock()
	if b.lease != nil {
		select {
		case <-b.lease.guest.Done():
		default:
			return b.lease, nil
		}
		if err := b.dropLease(ctx); err != nil {
			return nil, fmt.Errorf("lease: %w", err)
		}
	}
	lease, err := b.takeLease(ctx)
	if err != nil {
		return nil, err
	}
	b.lease = lease
	files, err := b.engine.VolumeInspect(ctx, filesVolume(b.run))
	var users *pool
	if err == nil {
		users, err = b.takeUsers(ctx)
	}
	if err != nil { // the next to ask takes it anew
		return nil, errors.Join(fmt.Errorf("lease: %w", err), b.dropLease(ctx))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.files, b.users = files.Mountpoint, users
	return lease, nil
}

// dropLease removes what is left of a lease that has ended. The run's numbers of users
// may be gone too: whoever removes what dead runs left takes ours for one.
func (b *Backend) dropLease(ctx context.Context) error {
	b.lease.abandon()
	b.lease = nil
	return b.engine.removeContainers(ctx, append(labelled(b.run, wholeRun), labelRole+"="+roleLease))
}

// home is where this process lives.
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

// processStart is when a process was started, ended or not; empty where that cannot
// be told.
func processStart(pid int) string {
	start, _ := proc.StartTime(pid)
	return start
}

// takingLease is how long a run may be between creating its lease and starting it.
const takingLease = 30 * time.Second

// leaseLives says whether the run of a lease container is alive at a time of the
// engine's. One that is created and not yet running belongs to a run that is just
// starting, if its process still is, or, where that cannot be seen from here, if it
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

// isHere says whether the process of a lease has its number where this one has.
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
