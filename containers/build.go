package containers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/waza-isolate/waza/internal/tree"

	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/retry"
)

// Limits of building one image.
const (
	buildTimeout = 20 * time.Minute
	buildMemory  = 4 << 30
	maxManifest  = images.MaxLockBytes
)

// EnsureImage builds the image of a package where the engine does not have
// it. Another run may build the same one at the same time: who is first gives it
// its tag.
func (b *Backend) EnsureImage(ctx context.Context, i images.Image, say func(string)) error {
	tag := i.Tag()
	_, err := b.engine.inspectImage(ctx, tag)
	if !errdefs.IsNotFound(err) {
		return err
	}
	content, err := i.Context(b.network)
	if err != nil {
		return err
	}
	say("building image for " + i.String())
	id, err := b.build(ctx, content)
	if err != nil {
		return fmt.Errorf("the image for %s cannot be built: %w", i, err)
	}
	if _, err := b.engine.inspectImage(ctx, tag); err == nil {
		return b.engine.dropImage(ctx, id)
	}
	return b.engine.ImageTag(ctx, id, tag)
}

// Resolve asks the registry, in a build, what a package comes to today. Where lock
// has it for another platform, its versions are kept.
func (b *Backend) Resolve(ctx context.Context, i images.Image, lock *images.Lock) (images.Entry, error) {
	content, err := i.ResolveContext(lock, b.network)
	if err != nil {
		return images.Entry{}, err
	}
	id, err := b.build(ctx, content)
	if err != nil {
		return images.Entry{}, fmt.Errorf("%s cannot be resolved: %w", i, err)
	}
	manifest, err := b.readFromImage(ctx, id, images.ManifestPath)
	if err = errors.Join(err, b.engine.dropImage(context.WithoutCancel(ctx), id)); err != nil {
		return images.Entry{}, fmt.Errorf("%s cannot be resolved: %w", i, err)
	}
	return i.ReadManifest(manifest, b.Platform())
}

// Platform is what the engine runs, such as linux/amd64.
func (b *Backend) Platform() string { return "linux/" + b.engine.arch() }

// build builds an image without a tag and returns its id. What else the builder
// keeps of it, which may hold the settings of the network, is removed.
func (b *Backend) build(ctx context.Context, content images.Context) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	args := map[string]*string{"RUN": &b.run}
	for name, value := range content.Args {
		args[name] = &value
	}
	defer func() {
		err = errors.Join(err, b.engine.dropStages(context.WithoutCancel(ctx), b.run, id))
	}()
	response, err := b.engine.ImageBuild(ctx, bytes.NewReader(content.Tar), build.ImageBuildOptions{
		Version: build.BuilderV1, NoCache: true, Remove: true, ForceRemove: true,
		Memory: buildMemory, MemorySwap: buildMemory,
		BuildArgs: args, Labels: content.Labels,
	})
	if err != nil {
		return "", err
	}
	id, err = readBuild(response.Body, b.redact)
	err = errors.Join(err, response.Body.Close())
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return "", err
	}
	return id, nil
}

// readBuild reads a build's output up to its end. Its error holds the last lines.
func readBuild(output io.Reader, redact func(string) string) (id string, err error) {
	var last buildLog
	for lines := json.NewDecoder(output); ; {
		var line struct {
			Stream string
			Error  string
			Aux    struct{ ID string }
		}
		switch err := lines.Decode(&line); {
		case errors.Is(err, io.EOF) && id == "":
			return "", errors.New("the engine ended the build without an image")
		case errors.Is(err, io.EOF):
			return id, nil
		case err != nil:
			return "", err
		case line.Error != "":
			return "", errors.New(redact(last.why(line.Error)))
		}
		last.add(line.Stream)
		if line.Aux.ID != "" {
			id = line.Aux.ID
		}
	}
}

// buildLog keeps the last lines of what the programs in a build said: without the
// builder's own and without colours.
type buildLog struct{ lines []string }

const (
	logLines = 15
	logWidth = 300
)

var (
	builderLine = regexp.MustCompile(`^(Step [0-9]+/|--->|Removing intermediate container |Removed intermediate container )`)
	colour      = regexp.MustCompile("\x1b\\[[0-9;]*m")
)

func (t *buildLog) add(text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(colour.ReplaceAllString(line, ""))
		if line == "" || builderLine.MatchString(line) {
			continue
		}
		t.lines = append(t.lines, line[:min(len(line), logWidth)])
	}
	t.lines = t.lines[max(0, len(t.lines)-logLines):]
}

// why is the last lines, where there are any: the builder's own error repeats the
// whole command.
func (t *buildLog) why(builder string) string {
	if len(t.lines) == 0 {
		return builder
	}
	return "the build says:\n" + strings.Join(t.lines, "\n")
}

// dropStages removes what the classic builder keeps of a run's builds beside the
// image that is wanted: the stages that were thrown away. A build that was cancelled
// still ends its step, in a container that has our label from its image and, unlike
// all others, no role.
func (e *engine) dropStages(ctx context.Context, run, wanted string) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	for {
		busy, err := e.builds(ctx, run)
		if err != nil {
			return err
		}
		if !busy {
			break
		}
		if err := retry.Sleep(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("a build of the run %s does not end: %w", run, err)
		}
	}
	stages, err := e.untagged(ctx, labelRun+"="+run)
	if err != nil {
		return err
	}
	var errs []error
	for _, stage := range stages {
		if stage.ID != wanted {
			errs = append(errs, e.dropImage(ctx, stage.ID))
		}
	}
	return errors.Join(errs...)
}

// builds reports whether a step of a run's builds is at work.
func (e *engine) builds(ctx context.Context, run string) (bool, error) {
	found, err := e.ContainerList(ctx, container.ListOptions{All: true, Filters: filter{labelRun + "=" + run}.args()})
	return slices.ContainsFunc(found, func(c container.Summary) bool { return c.Labels[labelRole] == "" }), err
}

// untagged lists the images that have a label and no tag, and are below no other, but for
// layers: another run may have one that lost its tag to a later one.
func (e *engine) untagged(ctx context.Context, label string) ([]image.Summary, error) {
	all, err := e.ImageList(ctx, image.ListOptions{
		Filters: filters.NewArgs(filters.Arg("label", label), filters.Arg("dangling", "true")),
	})
	return slices.DeleteFunc(all, func(i image.Summary) bool { return i.Labels[labelImage] == imageLayer }), err
}

// dropImage removes an image without a tag, and those without one below it.
func (e *engine) dropImage(ctx context.Context, id string) error {
	_, err := e.ImageRemove(ctx, id, image.RemoveOptions{PruneChildren: true})
	if err == nil {
		return nil
	}
	if _, gone := e.ImageInspect(ctx, id); errdefs.IsNotFound(gone) {
		return nil // Engine 20.10 has other words for an image that somebody else removes meanwhile
	}
	return err
}

// readFromImage copies one file out of an image.
func (b *Backend) readFromImage(ctx context.Context, id, name string) (content []byte, err error) {
	err = b.withImage(ctx, id, nil, func(id string) error {
		archive, _, err := b.engine.CopyFromContainer(ctx, id, name)
		if err != nil {
			return err
		}
		content, err = onlyFile(archive, path.Base(name))
		return errors.Join(err, archive.Close())
	})
	return content, err
}

// onlyFile is the content of the one file in a tar.
func onlyFile(archive io.Reader, name string) ([]byte, error) {
	file, err := tree.First(archive)
	switch {
	case err != nil:
		return nil, err
	case file.Kind() != tree.File || file.Name != name:
		return nil, fmt.Errorf("%s is not a regular file", name)
	case file.Size > maxManifest:
		return nil, fmt.Errorf("%s is larger than %d MiB", name, maxManifest>>20)
	}
	return io.ReadAll(file.Content)
}
