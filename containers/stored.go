package containers

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"github.com/waza-isolate/waza/images"
)

// kindGuest is the kind of the image of process 1 alone. It has no label.
const kindGuest = "guest"

// Stored is an image of ours on the engine.
type Stored struct {
	Ref     string // its tag
	Kind    string // agent, server, layer or guest
	Agent   string // whose it is; empty for no agent's
	Content string // what it was made of; empty for a guest, and where older builds did not say
	Size    int64  // bytes, with the layers that it shares with others
	Current bool   // this waza may ask for it; meaningless for a layer or guest
}

// ListImages lists the images that waza made on the engine, by kind and tag. Agents are
// those that come with this waza.
func ListImages(ctx context.Context, agents []images.Image) (all []Stored, err error) {
	e, err := dialEngine(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	return e.stored(ctx, agents)
}

// PruneImages removes the images of agents and of packages that this waza does not ask
// for any more. As long as any run is alive, which may be one of another version, it
// removes none and says how many runs there are.
func PruneImages(ctx context.Context, agents []images.Image) (removed []Stored, live int, err error) {
	e, err := dialEngine(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	all, err := e.stored(ctx, agents)
	if err != nil {
		return nil, 0, err
	}
	runs, err := e.liveRuns(ctx)
	if err != nil || len(runs) > 0 {
		return nil, len(runs), err
	}
	var errs []error
	for _, i := range all {
		if i.Current || i.Kind == kindGuest || i.Kind == imageLayer {
			continue
		}
		_, err := e.ImageRemove(ctx, i.Ref, image.RemoveOptions{PruneChildren: true})
		if errdefs.IsConflict(err) {
			continue // a container of somebody's has it
		}
		if err = wrapRemoval("image", i.Ref, err); err == nil {
			removed = append(removed, i)
		}
		errs = append(errs, err)
	}
	errs = append(errs, e.dropLayers(ctx, e.ownExecutable(), ""))
	return removed, 0, errors.Join(errs...)
}

func (e *engine) stored(ctx context.Context, agents []images.Image) ([]Stored, error) {
	var all []Stored
	for _, of := range []struct{ kind, repository string }{
		{imageAgent, images.AgentRepository}, {imageServer, images.Repository}, {imageLayer, layerRepository}, {kindGuest, guestRepository},
	} {
		which := filters.NewArgs(filters.Arg("reference", of.repository))
		if of.kind != kindGuest { // of the others somebody may have one that is not ours
			which.Add("label", labelImage+"="+of.kind)
		}
		found, err := e.ImageList(ctx, image.ListOptions{Filters: which})
		if err != nil {
			return nil, err
		}
		for _, i := range found {
			for _, ref := range i.RepoTags {
				if strings.HasPrefix(ref, of.repository+":") {
					all = append(all, Stored{Ref: ref, Kind: of.kind, Agent: i.Labels[images.LabelAgent], Content: i.Labels[images.LabelContent], Size: i.Size, Current: images.IsCurrent(i.Labels, agents)})
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Stored) int {
		if a.Kind != b.Kind {
			return strings.Compare(a.Kind, b.Kind)
		}
		return strings.Compare(a.Content+a.Ref, b.Content+b.Ref)
	})
	return all, nil
}
