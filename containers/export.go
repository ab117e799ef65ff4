package containers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/client"

	"github.com/distribution/reference"

	"github.com/waza-isolate/waza/internal/tree"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guests"
)

// Export returns the images of sandboxes for a cluster: with waza's files on top, under the names
// of [Backend.Save]. [Backend.Prepare] must have been called.
func (b *Backend) Export(ctx context.Context, specs []*sandbox.Spec) (guests.Images, error) {
	containers := containersOf(specs)
	all := guests.Images{FirstUser: highUsers, Images: map[string]guests.Image{}}
	found, err := b.images.of(ctx, containers, func(string) {})
	if err != nil {
		return all, err
	}
	if userRangeOf(b.engine.info) != (userRange{highUsers}) {
		return all, errors.New("this engine maps users, so that its images have accounts of users that a cluster's nodes do not have: use an engine that does not")
	}
	if err := b.images.addUsers(ctx, containers, found); err != nil {
		return all, err
	}
	for ref, info := range found {
		info.Reference = canonical(info.Reference)
		all.Images[ref] = info.Image
	}
	return all, nil
}

// canonical returns an image's name including its registry, which engines other than Docker
// require.
func canonical(name string) string {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return name
	}
	return named.String()
}

// Save writes images to w as an archive for docker load or ctr images import. It returns them with
// the ids that they then have on nodes: unlike a name, an id cannot be given to another image by
// whoever controls the node's registry.
func (b *Backend) Save(ctx context.Context, i guests.Images, w io.Writer) (guests.Images, error) {
	var names []string
	for _, one := range i.Images {
		names = append(names, one.Reference)
	}
	slices.Sort(names)
	content, err := b.engine.ImageSave(ctx, slices.Compact(names))
	if err != nil {
		return i, err
	}
	ids, err := copyArchive(w, content)
	if err = errors.Join(err, content.Close()); err != nil {
		return i, err
	}
	i.Images = maps.Clone(i.Images)
	for ref, one := range i.Images {
		one.Reference = ids[one.Reference]
		i.Images[ref] = one
	}
	return i, nil
}

// copyArchive copies an archive of images, and returns their ids by name. An image's id is the
// digest of its configuration, which the archive's manifest names.
func copyArchive(w io.Writer, archive io.Reader) (ids map[string]string, err error) {
	ids = map[string]string{}
	read := io.TeeReader(archive, w)
	for e, err := range tree.Entries(read) {
		if err != nil {
			return nil, err
		}
		if e.Path != "manifest.json" {
			continue
		}
		var all []struct {
			Config   string
			RepoTags []string
		}
		if err := json.NewDecoder(e.Content).Decode(&all); err != nil {
			return nil, fmt.Errorf("the engine's archive: manifest.json: %w", err)
		}
		for _, one := range all {
			for _, name := range one.RepoTags { // Config is HEX.json or blobs/sha256/HEX
				ids[canonical(name)] = "sha256:" + strings.TrimSuffix(path.Base(one.Config), ".json")
			}
		}
	}
	_, err = io.Copy(io.Discard, read)
	return ids, err
}

// Push pushes images below a prefix, a registry with an optional path, and returns them with
// their digests there. It uses the user's Docker login.
func (b *Backend) Push(ctx context.Context, i guests.Images, prefix string, say func(string)) (guests.Images, error) {
	i.Images = maps.Clone(i.Images)
	for ref, one := range i.Images {
		name, err := reference.ParseNormalizedNamed(one.Reference)
		if err != nil {
			return i, err
		}
		target, err := reference.ParseNormalizedNamed(prefix + "/" + reference.FamiliarString(name))
		if err != nil {
			return i, fmt.Errorf("%w: %q is not a valid name of a registry: %w", ErrImage, prefix, err)
		}
		say("pushing " + target.String())
		if one.Reference, err = push(ctx, b.engine, one.Reference, target); err != nil {
			return i, fmt.Errorf("push %s: %w", target, err)
		}
		i.Images[ref] = one
	}
	return i, nil
}

// push pushes an image under a name, and returns its reference by digest.
func push(ctx context.Context, e *engine, id string, target reference.Named) (string, error) {
	if _, err := e.ImageTag(ctx, client.ImageTagOptions{Source: id, Target: target.String()}); err != nil {
		return "", err
	}
	auth, err := loginFor(ctx, reference.Domain(target))
	if err != nil {
		return "", err
	}
	header, err := authconfig.Encode(auth)
	if err != nil {
		return "", err
	}
	step, end := e.work("pushing " + target.String())
	defer end()
	progress, err := e.ImagePush(ctx, target.String(), client.ImagePushOptions{RegistryAuth: header})
	if err == nil {
		err = readProgress(progress, stepsOf(step))
	}
	if err != nil {
		return "", err
	}
	pushed, err := e.ImageInspect(ctx, target.String())
	if err != nil {
		return "", err
	}
	for _, digest := range pushed.RepoDigests {
		if named, err := reference.ParseNormalizedNamed(digest); err == nil && named.Name() == target.Name() {
			return named.String(), nil
		}
	}
	return "", errors.New("the engine does not know its digest there")
}
