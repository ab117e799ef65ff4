package containers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/offline"
	"github.com/waza-isolate/waza/internal/retry"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/hint"
)

// Limits of one image build.
const (
	buildTimeout = 20 * time.Minute
	buildMemory  = 4 << 30
)

// builder builds images on the engine.
type builder struct {
	engine  *engine
	run     string
	network images.Network      // settings to reach a registry
	redact  func(string) string // removes secrets from build output
}

// buildAll builds the images of packages and sources.
func (b *builder) buildAll(ctx context.Context, of []sandbox.ContainerSpec, say func(string)) error {
	built := map[string]bool{}
	for _, c := range of {
		if c.Build == nil || built[c.Image] {
			continue
		}
		if err := b.EnsureImage(ctx, c.Build, say); err != nil {
			return fmt.Errorf("%s: %w", c.Who, err)
		}
		built[c.Image] = true
	}
	return nil
}

// EnsureImage builds an image if the engine does not have it. If another run builds the same
// image concurrently, the first one to finish tags it.
func (b *builder) EnsureImage(ctx context.Context, i images.Buildable, say func(string)) error {
	tag := i.Tag()
	_, err := b.engine.inspectImage(ctx, tag)
	if !errdefs.IsNotFound(err) {
		return err
	}
	if below := i.Below(); below != nil {
		if err := b.EnsureImage(ctx, below, say); err != nil {
			return err
		}
	}
	content, err := i.Context(b.network)
	if err != nil {
		return err
	}
	what, from := "building image for "+i.String(), ""
	if registry := i.Registry(b.network); registry != "" {
		from = ", with packages from " + registry
	}
	say(what + from)
	id, err := b.build(ctx, content, what)
	if err != nil {
		return fmt.Errorf("the image for %s cannot be built: %w", i, err)
	}
	if _, err := b.engine.inspectImage(ctx, tag); err == nil {
		return b.engine.dropImage(ctx, id)
	}
	_, err = b.engine.ImageTag(ctx, client.ImageTagOptions{Source: id, Target: tag})
	return err
}

// Resolve resolves a package and its dependencies to their current versions in the registry, in
// a build. Versions that lock has for another platform are kept.
func (b *builder) Resolve(ctx context.Context, i images.Image, lock *images.Lock) (images.Entry, error) {
	if below := i.Below(); below != nil {
		if err := b.EnsureImage(ctx, below, func(string) {}); err != nil {
			return images.Entry{}, err
		}
	}
	id, err := b.build(ctx, i.ResolveContext(lock, b.network), "resolving "+i.String())
	if err != nil {
		return images.Entry{}, fmt.Errorf("%s cannot be resolved: %w", i, err)
	}
	var manifest []byte
	err = b.engine.withImage(ctx, b.run, id, nil, func(id string) (err error) {
		manifest, err = b.engine.readFile(ctx, id, images.ManifestPath, images.MaxLockBytes+1)
		if len(manifest) > images.MaxLockBytes {
			err = fmt.Errorf("%s is larger than %d MiB", images.ManifestPath, images.MaxLockBytes>>20)
		}
		return err
	})
	if err = errors.Join(err, b.engine.dropImage(context.WithoutCancel(ctx), id)); err != nil {
		return images.Entry{}, fmt.Errorf("%s cannot be resolved: %w", i, err)
	}
	return i.ReadManifest(manifest, b.Platform())
}

// Platform returns the engine's platform, such as linux/amd64.
func (b *builder) Platform() string { return "linux/" + b.engine.arch() }

// build builds an image without a tag and returns its id. what describes the build for people. It
// removes everything else that the engine keeps of the build, because that may contain the
// network's settings.
func (b *builder) build(ctx context.Context, content images.Context, what string) (id string, err error) {
	if err := offline.Check(ctx, "what a build fetches"); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	step, end := b.engine.work(what)
	defer end()
	args := map[string]*string{content.RunArg: &b.run}
	for name, value := range content.Args {
		args[name] = &value
	}
	defer func() {
		err = errors.Join(err, b.dropStages(context.WithoutCancel(ctx), id))
	}()
	files, in := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := content.Tar(in)
		_ = in.CloseWithError(err)
		written <- err
	}()
	response, err := b.engine.ImageBuild(ctx, files, client.ImageBuildOptions{
		Version: build.BuilderV1, NoCache: true, Remove: true, ForceRemove: true,
		Memory: buildMemory, MemorySwap: buildMemory,
		Dockerfile: content.Dockerfile, Target: content.Target,
		BuildArgs: args, Labels: content.Labels,
	})
	if err == nil {
		id, err = readBuild(response.Body, b.redact, step)
	}
	_ = files.Close()
	unreadable := <-written
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case unreadable != nil && !errors.Is(unreadable, io.ErrClosedPipe): // it causes the engine's error
		return "", unreadable
	case err != nil && strings.Contains(err.Error(), "BuildKit"):
		return "", fmt.Errorf("%w; Dockerfiles are built without BuildKit here: build the image yourself and name it under image", err)
	case err != nil:
		return "", err
	}
	return id, nil
}

// readBuild reads the output of a build to its end, and calls step with the current step. The error
// contains the last lines.
func readBuild(output io.ReadCloser, redact func(string) string, step func(string)) (id string, err error) {
	var last buildLog
	var base layers // of an image that the engine pulls for the current step
	err = readProgress(output, func(line progressLine) {
		was := last.step
		last.add(line.Stream)
		if last.step != was {
			base = layers{}
		}
		if isLayer := base.add(line); isLayer || last.step != was {
			step(redact(strings.TrimSuffix(strings.TrimSuffix(last.step, ",")+": "+base.String(), ": ")))
		}
		id = cmp.Or(line.Aux.ID, id)
	})
	var failed progressError
	switch {
	case errors.As(err, &failed):
		// Redact before anything is cut: half a secret would not be found.
		return "", errors.New(redact(last.why(progressError(redact(string(failed))))))
	case err == nil && id == "":
		return "", errors.New("the engine ended the build without an image")
	}
	return id, err
}

// buildLog keeps the current step of a build and the last lines of its programs' output, without
// the lines of the engine's builder, stack frames of Node.js and colors.
type buildLog struct {
	step  string // its number and its instruction; empty before the first
	lines []string
	hint  string // for the first line with a known hint
}

const (
	logLines = 15
	logWidth = 300
	maxStep  = 120 // bytes of an instruction
)

var (
	stepLine    = regexp.MustCompile(`^(?i:step) ([0-9]+/[0-9]+) ?: (.+)`)
	builderLine = regexp.MustCompile(`^(--->|Removing intermediate container |Removed intermediate container )`)
	exitCode    = regexp.MustCompile(`(?s)^The command '.*' (returned a non-zero code: [0-9]+)$`)
	stackFrame  = regexp.MustCompile(`^(?:npm (?:error|ERR!) +)?(?:gyp ERR! stack +)?at .*\(.*\)$`)
	colour      = regexp.MustCompile("\x1b\\[[0-9;]*m")
)

func (t *buildLog) add(printed string) {
	for line := range strings.Lines(printed) {
		line = strings.TrimSpace(colour.ReplaceAllString(line, ""))
		if step := stepLine.FindStringSubmatch(line); step != nil {
			*t = buildLog{step: fmt.Sprintf("step %s, %s,", step[1], text.Shorten(step[2], maxStep))}
			continue
		}
		if line == "" || builderLine.MatchString(line) || stackFrame.MatchString(line) {
			continue
		}
		t.lines = append(t.lines, line[:min(len(line), logWidth)])
		t.hint = cmp.Or(t.hint, hint.OnBuild(line))
	}
	t.lines = t.lines[max(0, len(t.lines)-logLines):]
}

// why returns which step failed, the engine's error, and the last lines of the step.
func (t *buildLog) why(failed progressError) string {
	why := said{failed}.Error()
	if t.step != "" {
		if code := exitCode.FindStringSubmatch(string(failed)); code != nil { // the engine repeats the command
			why = t.step + " " + code[1]
		} else {
			why = t.step + " failed: " + why
		}
	}
	if len(t.lines) > 0 {
		why += "; the build says:\n" + strings.Join(t.lines, "\n")
	}
	return hint.Add(errors.New(why), cmp.Or(t.hint, hint.OnBuild(string(failed)))).Error()
}

// dropStages removes what the classic builder keeps of the run's builds, except the wanted
// image. A cancelled build still finishes its current step, in a container with our run label,
// which it inherits from its image, but without a role label.
func (b *builder) dropStages(ctx context.Context, wanted string) error {
	limit := cleanupTimeout
	if wanted != "" { // a busy engine may take minutes for stages with many files, and the build has succeeded
		limit = buildTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		found, err := b.engine.containers(ctx, ofRun(b.run))
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(found, func(c container.Summary) bool { return c.Labels[labelRole] == "" }) {
			break
		}
		if err := retry.Sleep(ctx, conflictPause); err != nil {
			return fmt.Errorf("a build of the run %s does not end: %w", b.run, err)
		}
	}
	stages, err := b.engine.untagged(ctx, labelRun+"="+b.run)
	return errors.Join(err, each(stages, func(stage image.Summary) error {
		if stage.ID == wanted {
			return nil
		}
		return b.engine.dropImage(ctx, stage.ID)
	}))
}
