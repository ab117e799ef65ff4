package containers

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/waza-isolate/waza/internal/retry"
	"github.com/waza-isolate/waza/sandbox"
)

// dying is how long containers of a dead runner may run on: their guests end when
// the engine closes their stdin, or when nobody answers their keepalive.
const dying = 15 * time.Second

// takeOver takes the lease of a run whose runner is dead, and then removes what that
// left. Of several that try at once one gets it: the lease's name is there once.
func (b *Backend) takeOver(ctx context.Context) error {
	if err := b.dropDead(ctx); err != nil {
		return err
	}
	_, err := b.leased(ctx)
	if errdefs.IsConflict(err) {
		return fmt.Errorf("%w: somebody else has just taken it up: %w", sandbox.ErrAlive, err)
	}
	if err != nil {
		return err
	}
	_, err = b.engine.collect(ctx, b.sweepOwn)
	return err
}

// Sweep removes what a dead run left on the engine.
func Sweep(ctx context.Context, run string) error {
	e, err := dialEngine(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }()
	b := &Backend{engine: e, run: run}
	if err := b.dropDead(ctx); err != nil {
		return err
	}
	_, err = e.collect(ctx, b.sweepOwn)
	return err
}

// dropDead removes the lease of the run's dead runner, once it has ended.
func (b *Backend) dropDead(ctx context.Context) error {
	for begun := time.Now(); ; {
		leases, err := b.engine.ContainerList(ctx, container.ListOptions{
			All: true, Filters: filter{labelRun + "=" + b.run, labelRole + "=" + roleLease}.args(),
		})
		if err != nil {
			return err
		}
		patience := time.Duration(0)
		for _, l := range leases {
			switch {
			case !leaseLives(l.State, time.Unix(l.Created, 0), l.Labels, b.engine.now()):
				if err := b.engine.removeContainer(ctx, l.ID); err != nil {
					return err
				}
			case l.State == "created":
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

// sweepOwn removes all of the run but what this process has of it.
func (b *Backend) sweepOwn(ctx context.Context) (Garbage, error) {
	all, err := b.engine.labelledObjects(ctx, ofRun(b.run))
	if err != nil {
		return Garbage{}, err
	}
	return b.engine.sweep(ctx, b.orphaned(all), nil)
}

// orphaned is what of a run's objects this process did not make.
func (b *Backend) orphaned(all objects) objects {
	b.leasing.Lock()
	defer b.leasing.Unlock()
	own := objects{networks: all.networks}
	for _, c := range all.containers {
		if b.lease == nil || c.ID != b.lease.id {
			own.containers = append(own.containers, c)
		}
	}
	for _, v := range all.volumes {
		if role := v.Labels[labelRole]; b.lease == nil || role != roleUsers && role != roleFiles {
			own.volumes = append(own.volumes, v)
		}
	}
	for _, i := range all.stages {
		if i.Labels[labelRun] == b.run {
			own.stages = append(own.stages, i)
		}
	}
	return own
}
