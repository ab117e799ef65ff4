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
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/retry"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox/hint"
)

// What holds for one image build.
const (
	buildTimeout = 20 * time.Minute
	buildMemory  = 4 << 30
	stillEvery   = 20 * time.Second // how often a build that takes long is said to go on
)

// builder builds images on the engine.
type builder struct {
	engine  *engine
	run     string
	network images.Network      // settings to reach a registry
	redact  func(string) string // removes secrets from build output
}

// buildAll builds the images of packages and sources.
func (b *builder) buildAll(ctx context.Context, trials []*plan.Trial, say func(string)) error {
	built := map[string]bool{}
	for _, t := range trials {
		for _, i := range t.Builds() {
			if built[i.Image] {
				continue
			}
			if err := b.EnsureImage(ctx, i, say); err != nil {
				return fmt.Errorf("%s: %w", i.Who, err)
			}
			built[i.Image] = true
		}
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
	built := sayBuilding(i, say)
	id, err := b.build(ctx, content)
	built()
	if err != nil {
		return fmt.Errorf("the image for %s cannot be built: %w", i, err)
	}
	if _, err := b.engine.inspectImage(ctx, tag); err == nil {
		return b.engine.dropImage(ctx, id)
	}
	return b.engine.ImageTag(ctx, id, tag)
}

// sayBuilding says that an image is being built, and again every stillEvery until built is called.
func sayBuilding(i images.Buildable, say func(string)) (built func()) {
	say("building image for " + i.String())
	began, ended := time.Now(), make(chan struct{})
	var saying sync.WaitGroup
	saying.Go(func() {
		tick := time.NewTicker(stillEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				say(fmt.Sprintf("the image for %s is still being built, after %s", i, time.Since(began).Round(time.Second)))
			case <-ended:
				return
			}
		}
	})
	return func() { close(ended); saying.Wait() }
}

// Resolve resolves a package and its dependencies to their current versions in the registry, in
// a build. Versions that lock has for another platform are kept.
func (b *builder) Resolve(ctx context.Context, i images.Image, lock *images.Lock) (images.Entry, error) {
	if below := i.Below(); below != nil {
		if err := b.EnsureImage(ctx, below, func(string) {}); err != nil {
			return images.Entry{}, err
		}
	}
	id, err := b.build(ctx, i.ResolveContext(lock, b.network))
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

// build builds an image without a tag and returns its id. It removes everything else that the
// engine keeps of the build, because that may contain the network's settings.
func (b *builder) build(ctx context.Context, content images.Context) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
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
	response, err := b.engine.ImageBuild(ctx, files, build.ImageBuildOptions{
		Version: build.BuilderV1, NoCache: true, Remove: true, ForceRemove: true,
		Memory: buildMemory, MemorySwap: buildMemory,
		Dockerfile: content.Dockerfile, Target: content.Target,
		BuildArgs: args, Labels: content.Labels,
	})
	if err == nil {
		id, err = readBuild(response.Body, b.redact)
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

// readBuild reads the output of a build to its end. The error contains the last lines.
func readBuild(output io.ReadCloser, redact func(string) string) (id string, err error) {
	var last buildLog
	err = readProgress(output, func(line progressLine) {
		last.add(line.Stream)
		id = cmp.Or(line.Aux.ID, id)
	})
	var failed progressError
	switch {
	case errors.As(err, &failed):
		return "", errors.New(redact(last.why(string(failed))))
	case err == nil && id == "":
		return "", errors.New("the engine ended the build without an image")
	}
	return id, err
}

// buildLog keeps the current step of a build and the last lines that its programs wrote, without those
// of the engine's builder, frames of Node.js's stacks and colors.
type buildLog struct {
	step  string // its number and its instruction; empty before the first
	lines []string
	hint  string // for the first line that a hint is known for
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

// why returns which step failed, what the engine says of that, and the step's last lines.
func (t *buildLog) why(engine string) string {
	why := engine
	if t.step != "" {
		if code := exitCode.FindStringSubmatch(engine); code != nil { // the engine repeats the command
			why = t.step + " " + code[1]
		} else {
			why = t.step + " failed: " + engine
		}
	}
	if len(t.lines) > 0 {
		why += "; the build says:\n" + strings.Join(t.lines, "\n")
	}
	return hint.Add(errors.New(why), t.hint).Error()
}

// dropStages removes what the classic builder keeps of the run's builds, except the wanted
// image. A cancelled build still finishes its current step, in a container with our run label,
// which it inherits from its image, but without a role label.
func (b *builder) dropStages(ctx context.Context, wanted string) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
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
