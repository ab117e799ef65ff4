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

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/retry"
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

	held int // volumes that a container still had
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
	g, err := e.collect(ctx, func(ctx context.Context) (Garbage, error) {
		found, err := e.labelledObjects(ctx, ours())
		if err != nil {
			return Garbage{}, err
		}
		live, err := e.liveRuns(ctx)
		if err != nil {
			return Garbage{}, err
		}
		return e.sweep(ctx, found, live)
	})
	return g, errors.Join(err, e.dropLayers(ctx, e.ownExecutable(), ""))
}

const (
	// settling is how long nothing of a run that has just died must come into being
	// until it is taken for gone: the engine carries out what the run asked of it
	// last, whether or not anybody waits for the answer.
	settling = 2 * time.Second
	// settlingTries bounds it, where somebody keeps on making garbage.
	settlingTries = 10
)

// collect sweeps, and where that found something sweeps again until nothing comes.
func (e *engine) collect(ctx context.Context, sweep func(context.Context) (Garbage, error)) (all Garbage, err error) {
	for range settlingTries {
		g, err := sweep(ctx)
		all = all.and(g)
		if err != nil || g.none() {
			return all, err
		}
		if err := retry.Sleep(ctx, settling); err != nil {
			return all, err
		}
	}
	return all, nil
}

func (g Garbage) none() bool { return g.Containers+g.Networks+g.Volumes+g.Images+g.held == 0 }

// and is g with what was found after it.
func (g Garbage) and(later Garbage) Garbage {
	runs := slices.Concat(g.Runs, later.Runs)
	slices.Sort(runs)
	return Garbage{
		Runs: slices.Compact(runs), Live: later.Live,
		Containers: g.Containers + later.Containers, Networks: g.Networks + later.Networks,
		Volumes: g.Volumes + later.Volumes, Images: g.Images + later.Images,
	}
}

// labelledObjects lists what matches, and of all runs what builds left.
func (e *engine) labelledObjects(ctx context.Context, which filter) (objects, error) {
	var all objects
	var err error
	if all.networks, err = e.NetworkList(ctx, network.ListOptions{Filters: which.args()}); err != nil {
		return all, err
	}
	volumes, err := e.VolumeList(ctx, volume.ListOptions{Filters: which.args()})
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
	all.containers, err = e.ContainerList(ctx, container.ListOptions{All: true, Filters: which.args()})
	return all, err
}

func (e *engine) liveRuns(ctx context.Context) (map[string]bool, error) {
	leases, err := e.ContainerList(ctx, container.ListOptions{All: true, Filters: filter{labelRole + "=" + roleLease}.args()})
	if err != nil {
		return nil, err
	}
	live := map[string]bool{}
	for _, l := range leases {
		if leaseLives(l.State, time.Unix(l.Created, 0), l.Labels, e.now()) {
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
			errs = append(errs, wrapRemoval("network", n.Name, e.removeNetwork(ctx, n.ID)))
			g.Networks++
		}
	}
	for _, v := range all.volumes {
		if isDead(v.Labels) {
			err := e.VolumeRemove(ctx, v.Name, true)
			if errdefs.IsConflict(err) {
				g.held++ // by one that is just going, or its run is just starting
				continue
			}
			errs = append(errs, wrapRemoval("volume", v.Name, err))
			g.Volumes++
		}
	}
	for _, i := range slices.Concat(all.stages, all.unnamed) {
		if _, ofRun := i.Labels[labelRun]; ofRun && !isDead(i.Labels) || !ofRun && e.now().Sub(time.Unix(i.Created, 0)) < unnamedAfter {
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
	return oldGuests(guests, guestReference(e.ownExecutable()), e.now()), err
}

// ownExecutable is the SHA-256 of our executable for the engine, empty where there is none.
func (e *engine) ownExecutable() (sum string) {
	if path, err := guestExecutable(e.arch()); err == nil {
		sum, _ = files.Digest(path)
	}
	return sum
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
