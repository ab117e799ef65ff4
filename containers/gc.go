package containers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/retry"
)

// Garbage is what gc removed of dead runs.
type Garbage struct {
	Runs       []string `json:"runs"` // ids of dead runs
	Live       []string `json:"live"` // ids of live runs, which were not touched
	Containers int      `json:"containers"`
	Networks   int      `json:"networks"`
	Volumes    int      `json:"volumes"`
	Images     int      `json:"images"`       // untagged images that builds left
	Guests     int      `json:"guest_images"` // of old builds

	held int // volumes still used by a container
}

func (g Garbage) none() bool { return g.Containers+g.Networks+g.Volumes+g.Images+g.held == 0 }

// plus returns the sum of g and a later result.
func (g Garbage) plus(later Garbage) Garbage {
	runs := slices.Concat(g.Runs, later.Runs)
	slices.Sort(runs)
	return Garbage{
		Runs: slices.Compact(runs), Live: later.Live,
		Containers: g.Containers + later.Containers, Networks: g.Networks + later.Networks,
		Volumes: g.Volumes + later.Volumes, Images: g.Images + later.Images, Guests: g.Guests + later.Guests,
	}
}

// GC removes what dead runs left on the engine. It lists objects before leases: a run takes its
// lease before it creates anything else, so an object whose run holds no lease afterwards is
// garbage.
func GC(ctx context.Context) (Garbage, error) {
	e, err := dialEngine(ctx)
	if err != nil {
		return Garbage{}, err
	}
	defer func() { _ = e.Close() }()
	s := sweeper{e}
	g, err := untilClean(ctx, func() (Garbage, error) {
		found, err := s.find(ctx, allRuns())
		if err != nil {
			return Garbage{}, err
		}
		live, err := s.liveRuns(ctx)
		if err != nil {
			return Garbage{}, err
		}
		return s.sweep(ctx, found, live)
	})
	return g, errors.Join(err, s.dropLayers(ctx, guestSum(e.arch()), ""), removeOldSockets())
}

// Sweep removes what a dead run left on the engine.
func Sweep(ctx context.Context, run string) error {
	e, err := dialEngine(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }()
	if err := dropDeadLease(ctx, e, run); err != nil {
		return err
	}
	return sweeper{e}.sweepRun(ctx, run, nil)
}

const (
	// settling is how long no new object of a dead run must appear until the run counts as
	// removed, since the engine still executes the run's last requests.
	settling = 2 * time.Second
	// settlingTries limits the repetitions, in case somebody keeps creating garbage.
	settlingTries = 10
)

// untilClean calls sweep repeatedly until it finds nothing.
func untilClean(ctx context.Context, sweep func() (Garbage, error)) (all Garbage, err error) {
	for range settlingTries {
		g, err := sweep()
		all = all.plus(g)
		if err != nil || g.none() {
			return all, err
		}
		if err := retry.Sleep(ctx, settling); err != nil {
			return all, err
		}
	}
	return all, nil
}

// objects are all objects on the engine with our labels.
type objects struct {
	containers []container.Summary
	networks   []network.Summary
	volumes    []volume.Volume
	stages     []image.Summary // stages of builds, by their run's label
	unnamed    []image.Summary // servers' images without a tag
	guests     []string        // references of guest images of old builds
}

// labels returns the labels of every object that belongs to a run.
func (o objects) labels() []map[string]string {
	var all []map[string]string
	for _, c := range o.containers {
		all = append(all, c.Labels)
	}
	for _, n := range o.networks {
		all = append(all, n.Labels)
	}
	for _, v := range o.volumes {
		all = append(all, v.Labels)
	}
	for _, i := range o.stages {
		all = append(all, i.Labels)
	}
	return all
}

// without returns a run's objects except those that belong to its lease.
func (o objects) without(run string, held *heldLease) objects {
	left := objects{networks: o.networks}
	left.containers = slices.DeleteFunc(o.containers, func(c container.Summary) bool { return held != nil && c.ID == held.id })
	left.volumes = slices.DeleteFunc(o.volumes, func(v volume.Volume) bool {
		role := v.Labels[labelRole]
		return held != nil && (role == roleUsers || role == roleFiles)
	})
	left.stages = slices.DeleteFunc(o.stages, func(i image.Summary) bool { return i.Labels[labelRun] != run })
	return left
}

// sweeper finds and removes what waza left on an engine.
type sweeper struct{ engine *engine }

// find lists objects that match the filter, and the build leftovers of all runs.
func (s sweeper) find(ctx context.Context, which filter) (all objects, err error) {
	networks, err := s.engine.NetworkList(ctx, client.NetworkListOptions{Filters: which.args()})
	if err != nil {
		return all, err
	}
	volumes, err := s.engine.VolumeList(ctx, client.VolumeListOptions{Filters: which.args()})
	if err != nil {
		return all, err
	}
	all.networks, all.volumes = networks.Items, volumes.Items
	if all.stages, err = s.engine.untagged(ctx, labelRun); err != nil {
		return all, err
	}
	if all.unnamed, err = s.engine.untagged(ctx, labelImage+"="+imageServer); err != nil {
		return all, err
	}
	guests, err := s.guestImages(ctx)
	if err != nil {
		return all, err
	}
	all.guests = oldGuests(guests, guestReference(guestSum(s.engine.arch())), s.engine.now())
	all.containers, err = s.engine.containers(ctx, which)
	return all, err
}

// liveRuns returns the ids of the runs that hold a lease.
func (s sweeper) liveRuns(ctx context.Context) (map[string]bool, error) {
	leases, err := s.engine.containers(ctx, filter{labelRole + "=" + roleLease})
	live := map[string]bool{}
	for _, l := range leases {
		if leaseLives(l.State, time.Unix(l.Created, 0), l.Labels, s.engine.now()) {
			live[l.Labels[labelRun]] = true
		}
	}
	return live, err
}

// sweepRun removes everything of a run except what its lease holds.
func (s sweeper) sweepRun(ctx context.Context, run string, held *heldLease) error {
	_, err := untilClean(ctx, func() (Garbage, error) {
		all, err := s.find(ctx, ofRun(run))
		if err != nil {
			return Garbage{}, err
		}
		return s.sweep(ctx, all.without(run, held), nil)
	})
	return err
}

// unnamedAfter is the age from which an untagged image cannot belong to a build in progress.
const unnamedAfter = buildTimeout + time.Hour

// sweep removes the objects of runs that are not live.
func (s sweeper) sweep(ctx context.Context, all objects, live map[string]bool) (Garbage, error) {
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
			errs = append(errs, s.engine.removeContainer(ctx, c.ID))
			g.Containers++
		}
	}
	for _, n := range all.networks {
		if isDead(n.Labels) {
			errs = append(errs, wrapRemoval("network", n.Name, s.engine.removeNetwork(ctx, n.ID)))
			g.Networks++
		}
	}
	for _, v := range all.volumes {
		if isDead(v.Labels) {
			_, err := s.engine.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{Force: true})
			if errdefs.IsConflict(err) {
				g.held++ // its container is being removed, or its run is just starting
				continue
			}
			errs = append(errs, wrapRemoval("volume", v.Name, err))
			g.Volumes++
		}
	}
	for _, i := range slices.Concat(all.stages, all.unnamed) {
		if i.Labels[labelRun] == "" { // the last step of a build removes the run's label
			if s.engine.now().Sub(time.Unix(i.Created, 0)) < unnamedAfter {
				continue
			}
		} else if !isDead(i.Labels) {
			continue
		}
		err := s.engine.dropImage(ctx, i.ID)
		if errdefs.IsConflict(err) {
			continue // a container uses it
		}
		errs = append(errs, wrapRemoval("image", i.ID, err))
		g.Images++
	}
	for _, ref := range all.guests {
		_, err := s.engine.ImageRemove(ctx, ref, client.ImageRemoveOptions{})
		if errdefs.IsConflict(err) {
			continue // a live run uses it
		}
		if err == nil {
			g.Guests++
		}
		errs = append(errs, wrapRemoval("image", ref, err))
	}
	g.Runs, g.Live = sortedKeys(dead), sortedKeys(live)
	return g, errors.Join(errs...)
}

func wrapRemoval(kind, name string, err error) error {
	if err = ignoreGone(err); err != nil {
		return fmt.Errorf("remove %s %s: %w", kind, name, err)
	}
	return nil
}

// leftovers are the trials of a run that could not be removed when they were closed.
type leftovers struct {
	engine *engine
	run    string

	mu     sync.Mutex
	trials map[string]func() // by the label of a trial, gives back what it has; guarded by mu
	more   bool              // the engine may still execute an abandoned create request; guarded by mu
}

// add records a trial that could not be removed. release is called when it is.
func (l *leftovers) add(trial string, release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if defence.EndingContainers {
		l.trials[trial] = release
	}
}

// expectMore records that the engine may still create an object whose request was abandoned.
func (l *leftovers) expectMore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.more = true
}

// any reports whether objects of the run's trials may be left on the engine.
func (l *leftovers) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.more || len(l.trials) > 0
}

// remove removes the recorded trials.
func (l *leftovers) remove(ctx context.Context) error {
	l.mu.Lock()
	trials := sortedKeys(l.trials)
	l.mu.Unlock()
	return each(trials, func(trial string) error {
		which := ofTrial(l.run, trial)
		err := errors.Join(l.engine.removeContainers(ctx, which), l.engine.removeNetworks(ctx, which), l.engine.removeVolumes(ctx, which))
		if err != nil {
			return fmt.Errorf("trial %s: %w", trial, err)
		}
		l.mu.Lock()
		release := l.trials[trial]
		delete(l.trials, trial)
		l.mu.Unlock()
		if release != nil { // not removed by somebody else in the meantime
			release()
		}
		return nil
	})
}
