package containers

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/images"
)

// kindGuest is the kind of guest images. They have no label.
const kindGuest = "guest"

// Stored is an image on the engine that waza made.
type Stored struct {
	Ref     string // tag
	Kind    string // agent, server, source, layer or guest
	Agent   string // name of the agent; empty for other images
	Content string // what it was made from; empty for a guest
	Size    int64  // in bytes, including shared layers
	Current bool   // may be used by this version, or is the newest of its source; not set for layers and guests
}

// ListImages lists the images on the engine that waza made, by kind and tag. agents are the
// images of this version's built-in agents.
func ListImages(ctx context.Context, agents []images.Image) (all []Stored, err error) {
	e, err := dialEngine(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	return sweeper{e}.stored(ctx, agents)
}

// PruneImages removes the images of agents and packages that this version does not use, and
// outdated ones of sources. While any run is live, it removes none, because the run may use
// another version. It returns the number of live runs.
func PruneImages(ctx context.Context, agents []images.Image) (removed []Stored, live int, err error) {
	e, err := dialEngine(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	s := sweeper{e}
	all, err := s.stored(ctx, agents)
	if err != nil {
		return nil, 0, err
	}
	runs, err := s.liveRuns(ctx)
	if err != nil || len(runs) > 0 {
		return nil, len(runs), err
	}
	var errs []error
	for _, i := range all {
		if i.Current || i.Kind == kindGuest || i.Kind == imageLayer {
			continue
		}
		_, err := e.ImageRemove(ctx, i.Ref, client.ImageRemoveOptions{PruneChildren: true})
		if errdefs.IsConflict(err) {
			continue // a container uses it
		}
		if err = wrapRemoval("image", i.Ref, err); err == nil {
			removed = append(removed, i)
		}
		errs = append(errs, err)
	}
	errs = append(errs, s.dropLayers(ctx, guestSum(e.arch()), ""))
	return removed, 0, errors.Join(errs...)
}

// stored lists the images that waza made, by kind and tag.
func (s sweeper) stored(ctx context.Context, agents []images.Image) ([]Stored, error) {
	var all []Stored
	for _, of := range []struct{ kind, repository string }{
		{imageAgent, images.AgentRepository}, {imageServer, images.Repository}, {imageSource, images.SourceRepository}, {imageLayer, layerRepository}, {kindGuest, guestRepository},
	} {
		which := client.Filters{}.Add("reference", of.repository)
		if of.kind != kindGuest { // images of the same name that are not ours lack the label
			which.Add("label", labelImage+"="+of.kind)
		}
		found, err := s.engine.ImageList(ctx, client.ImageListOptions{Filters: which})
		if err != nil {
			return nil, err
		}
		newest := map[string]int64{} // by source
		for _, i := range found.Items {
			newest[i.Labels[images.LabelContent]] = max(newest[i.Labels[images.LabelContent]], i.Created)
		}
		for _, i := range found.Items {
			current := images.IsCurrent(i.Labels, agents)
			if of.kind == imageSource {
				current = i.Created == newest[i.Labels[images.LabelContent]]
			}
			for _, ref := range i.RepoTags {
				if strings.HasPrefix(ref, of.repository+":") {
					all = append(all, Stored{Ref: ref, Kind: of.kind, Agent: i.Labels[images.LabelAgent], Content: i.Labels[images.LabelContent], Size: i.Size, Current: current})
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Stored) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Content+a.Ref, b.Content+b.Ref))
	})
	return all, nil
}

// guestImages lists the guest images of all builds.
func (s sweeper) guestImages(ctx context.Context) ([]image.Summary, error) {
	found, err := s.engine.ImageList(ctx, client.ImageListOptions{Filters: client.Filters{}.Add("reference", guestRepository)})
	return found.Items, err
}

// oldGuest is the age from which guest images of other builds are removed.
const oldGuest = 24 * time.Hour

// oldGuests returns the references of guest images that gc removes.
func oldGuests(all []image.Summary, own string, now time.Time) []string {
	var old []string
	for _, i := range all {
		if now.Sub(time.Unix(i.Created, 0)) < oldGuest {
			continue
		}
		for _, ref := range i.RepoTags {
			if strings.HasPrefix(ref, guestRepository+":") && ref != own {
				old = append(old, ref)
			}
		}
	}
	return old
}

// youngLayers is the age up to which layers are kept because another run may be about to use
// them: those of other builds, and those that lost their tag to a concurrent build.
const youngLayers = time.Hour

// dropLayers removes the layers of untagged images, and old layers with another executable than
// own, unless a run other than the given one is live.
func (s sweeper) dropLayers(ctx context.Context, own, run string) error {
	live, err := s.liveRuns(ctx)
	delete(live, run)
	if err != nil || len(live) > 0 {
		return err
	}
	all, err := s.engine.ImageList(ctx, client.ImageListOptions{})
	if err != nil {
		return err
	}
	return each(staleLayers(all.Items, layerReference(own), s.engine.now().Add(-youngLayers)), func(id string) error {
		err := s.engine.dropImage(ctx, id)
		if errdefs.IsConflict(err) { // a container uses it
			return nil
		}
		return wrapRemoval("image", id, err)
	})
}

// staleLayers returns the ids of layers that are not needed any more.
func staleLayers(all []image.Summary, own string, before time.Time) (ids []string) {
	named := map[string]bool{}
	for _, i := range all {
		named[i.ID] = len(i.RepoTags)+len(i.RepoDigests) > 0
	}
	for _, i := range all {
		foreign := func(tag string) bool { return !strings.HasPrefix(tag, layerRepository+":") }
		if i.Labels[labelImage] != imageLayer || slices.ContainsFunc(i.RepoTags, foreign) { // any image may have the label
			continue
		}
		current := slices.ContainsFunc(i.RepoTags, func(tag string) bool { return strings.HasPrefix(tag, own) })
		old := time.Unix(i.Created, 0).Before(before)
		if !named[i.Labels[labelParent]] || !current && old {
			ids = append(ids, i.ID)
		}
	}
	return ids
}
