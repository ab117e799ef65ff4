package containers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"

	"github.com/distribution/reference"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox/guests"
)

// Export returns the images of trials for a cluster: with waza's files on top, under the names
// of [Backend.Save]. [Backend.Prepare] must have been called.
func (b *Backend) Export(ctx context.Context, trials []*plan.Trial) (guests.Images, error) {
	all := guests.Images{FirstUser: highUsers, Images: map[string]guests.Image{}}
	found, err := b.images.ofTrials(ctx, trials, func(string) {})
	if err != nil {
		return all, err
	}
	if userRangeOf(b.engine.info) != (userRange{highUsers}) {
		return all, errors.New("this engine maps users, so that its images have accounts of users that a cluster's nodes do not have: use an engine that does not")
	}
	for _, t := range trials {
		if err := b.images.addUsers(ctx, t, found); err != nil {
			return all, err
		}
	}
	for ref, info := range found {
		info.Reference = canonical(info.Reference)
		all.Images[ref] = info.Image
	}
	return all, nil
}

// ExportRunner makes the image of runners of shards: an executable at the path at, and the
// certificates of authorities, by which it knows models and remote servers. It returns its name.
func (b *Backend) ExportRunner(ctx context.Context, executable, at string, authorities []byte) (string, error) {
	if err := checkStatic(executable, b.engine.arch()); err != nil {
		return "", err
	}
	digest, err := files.Digest(executable)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append([]byte(digest), authorities...))
	ref := guestRepository + ":runner-" + hex.EncodeToString(sum[:8])
	if _, err = b.engine.inspectImage(ctx, ref); errdefs.IsNotFound(err) {
		err = importImage(ctx, b.engine, ref, "runner of shards", []layerFile{
			{name: at, executable: executable}, {name: "/etc/ssl/certs/ca-certificates.crt", text: string(authorities)}, {name: "/tmp", dir: true, mode: 0o1777},
		})
	}
	return canonical(ref), err
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

// Save writes images to w as an archive for docker load or ctr images import.
func (b *Backend) Save(ctx context.Context, i guests.Images, w io.Writer) error {
	var names []string
	for _, one := range i.Images {
		names = append(names, one.Reference)
	}
	if i.Runner != "" {
		names = append(names, i.Runner)
	}
	slices.Sort(names)
	content, err := b.engine.ImageSave(ctx, slices.Compact(names))
	if err != nil {
		return err
	}
	_, err = io.Copy(w, content)
	return errors.Join(err, content.Close())
}

// Push pushes images below a prefix, a registry with an optional path, and returns them with
// their digests there. It uses the user's Docker login.
func (b *Backend) Push(ctx context.Context, i guests.Images, prefix string, say func(string)) (guests.Images, error) {
	below := func(ref string) (string, error) {
		name, err := reference.ParseNormalizedNamed(ref)
		if err != nil {
			return "", err
		}
		target, err := reference.ParseNormalizedNamed(prefix + "/" + reference.FamiliarString(name))
		if err != nil {
			return "", fmt.Errorf("%w: %q is not a valid name of a registry: %w", ErrImage, prefix, err)
		}
		say("pushing " + target.String())
		digest, err := push(ctx, b.engine, ref, target)
		if err != nil {
			err = fmt.Errorf("push %s: %w", target, err)
		}
		return digest, err
	}
	i.Images = maps.Clone(i.Images)
	for ref, one := range i.Images {
		var err error
		if one.Reference, err = below(one.Reference); err != nil {
			return i, err
		}
		i.Images[ref] = one
	}
	if i.Runner == "" {
		return i, nil
	}
	var err error
	i.Runner, err = below(i.Runner)
	return i, err
}

// push pushes an image under a name, and returns its reference by digest.
func push(ctx context.Context, e *engine, id string, target reference.Named) (string, error) {
	if err := e.ImageTag(ctx, id, target.String()); err != nil {
		return "", err
	}
	auth, err := loginFor(ctx, reference.Domain(target))
	if err != nil {
		return "", err
	}
	header, err := registry.EncodeAuthConfig(auth)
	if err != nil {
		return "", err
	}
	progress, err := e.ImagePush(ctx, target.String(), image.PushOptions{RegistryAuth: header})
	if err == nil {
		err = readProgress(progress, func(progressLine) {})
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
