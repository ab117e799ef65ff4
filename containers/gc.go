package containers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
)

// Garbage is what a gc found of dead runs and removed.
type Garbage struct {
	Runs       []string // ids of the dead runs
	Live       []string // ids of live runs, which were left alone
	Containers int
	Networks   int
	Volumes    int
	Images     int // what builds left, without a tag
	Guests     int // guest images of old builds
}

// objects is everything on the engine that carries our labels.
type objects struct {
	containers []container.Summary
	networks   []network.Summary
	volumes    []*volume.Volume
	stages     []image.Summary // of builds, by their run's label
	unnamed    []image.Summary // servers' images that got no tag
	guests     []string        // guest images of old builds, by reference
}

// GC removes what dead runs left on the engine. Objects are listed before leases:
// a run takes its lease before it creates anything else, so an object whose run
// holds no lease by then has outlived it.
func GC(ctx context.Context) (Garbage, error) {
	e, err := dialEngine(ctx)
	if err != nil {
		return Garbage{}, err
	}
	defer func() { _ = e.Close() }()
	found, err := e.labelledObjects(ctx)
	if err != nil {
		return Garbage{}, err
	}
	live, err := e.liveRuns(ctx)
	if err != nil {
		return Garbage{}, err
	}
	return e.sweep(ctx, found, live)
}

func (e *engine) labelledObjects(ctx context.Context) (objects, error) {
	var all objects
	var err error
	if all.networks, err = e.NetworkList(ctx, network.ListOptions{Filters: ours().args()}); err != nil {
		return all, err
	}
	volumes, err := e.VolumeList(ctx, volume.ListOptions{Filters: ours().args()})
	if err != nil {
		return all, err
	}
	all.volumes = volumes.Volumes
	if all.stages, err = e.untagged(ctx, labelRun); err != nil {
		return all, err
	}
	if all.unnamed, err = e.untagged(ctx, labelImage+"="+imageServer); err != nil {
		return all, err
	}
	if all.guests, err = e.unusedGuests(ctx); err != nil {
		return all, err
	}
	all.containers, err = e.ContainerList(ctx, container.ListOptions{All: true, Filters: ours().args()})
	return all, err
}

func (e *engine) liveRuns(ctx context.Context) (map[string]bool, error) {
	leases, err := e.ContainerList(ctx, container.ListOptions{All: true, Filters: filter{labelRole + "=" + roleLease}.args()})
	if err != nil {
		return nil, err
	}
	live := map[string]bool{}
	for _, l := range leases {
		if leaseLives(l.State, time.Unix(l.Created, 0), l.Labels, time.Now()) {
			live[l.Labels[labelRun]] = true
		}
	}
	return live, nil
}

func (e *engine) sweep(ctx context.Context, all objects, live map[string]bool) (Garbage, error) {
	var g Garbage
	dead := map[string]bool{}
	isDead := func(labels map[string]string) bool {
		run := labels[labelRun]
		if !live[run] {
			dead[run] = true
		}
		return !live[run]
	}
	var errs []error
	for _, c := range all.containers {
		if isDead(c.Labels) {
			errs = append(errs, e.removeContainer(ctx, c.ID))
			g.Containers++
		}
	}
	for _, n := range all.networks {
		if isDead(n.Labels) {
			errs = append(errs, wrapRemoval("network", n.Name, e.NetworkRemove(ctx, n.ID)))
			g.Networks++
		}
	}
	for _, v := range all.volumes {
		if isDead(v.Labels) {
			err := e.VolumeRemove(ctx, v.Name, true)
			if errdefs.IsConflict(err) {
				continue // taken into use since it was listed: its run is just starting
			}
			errs = append(errs, wrapRemoval("volume", v.Name, err))
			g.Volumes++
		}
	}
	for _, i := range slices.Concat(all.stages, all.unnamed) {
		if _, ofRun := i.Labels[labelRun]; ofRun && !isDead(i.Labels) || !ofRun && time.Since(time.Unix(i.Created, 0)) < unnamedAfter {
			continue
		}
		err := e.dropImage(ctx, i.ID)
		if errdefs.IsConflict(err) {
			continue // a container of somebody's has it
		}
		errs = append(errs, wrapRemoval("image", i.ID, err))
		g.Images++
	}
	for _, ref := range all.guests {
		removed, err := e.removeGuest(ctx, ref)
		errs = append(errs, err)
		if removed {
			g.Guests++
		}
	}
	g.Runs, g.Live = sortedKeys(dead), sortedKeys(live)
	return g, errors.Join(errs...)
}

// unusedGuests are the guest images of builds that nobody runs any more.
func (e *engine) unusedGuests(ctx context.Context) ([]string, error) {
	guests, err := e.guestImages(ctx)
	if err != nil {
		return nil, err
	}
	var own string
	if path, err := guestExecutable(e.arch()); err == nil {
		own, _ = guestReference(path) // without one of our own there is none to keep
	}
	return oldGuests(guests, own, time.Now()), nil
}

// unnamedAfter is the age from which an image without a tag was never to get one:
// its build cannot be at work any more.
const unnamedAfter = buildTimeout + time.Hour

func wrapRemoval(kind, name string, err error) error {
	if err = ignoreGone(err); err != nil {
		return fmt.Errorf("remove %s %s: %w", kind, name, err)
	}
	return nil
}
