package containers

import (
	"context"
	"errors"
	"io"
	"regexp"
	"strings"

	"github.com/moby/moby/client"
)

// said is an error of a request to the engine for people: on one line, without the request and the
// names of programs that relayed it, and with the middle of a long message cut. The message may
// repeat the request, such as the seccomp profile of 20 kB, or be a proxy's web page.
type said struct{ error }

// passedOn matches what the engine and its runtimes put before a message that they relay, and
// containerd after it.
var passedOn = regexp.MustCompile(`\b[A-Z][a-z]+ "http[^"]*/v1\.\d+/[^"]*": |Error response from daemon: |Error reading remote info: |error during connect: |failed to connect to the docker API at \S+: |failed to create (?:shim )?task(?: for container)?: |failed to create shim: |OCI runtime (?:create|start) failed: |(?:runc|crun) (?:create|start) failed: |unable to start container process: |error during container init: |starting container process caused: |\w+_linux\.go:\d+: |: unknown$`)

// Error implements error.
func (s said) Error() string {
	if errors.Is(s.error, context.DeadlineExceeded) {
		return "the engine did not answer in time"
	}
	const first, last = 300, 100
	text := strings.Join(strings.Fields(passedOn.ReplaceAllString(strings.TrimSpace(s.error.Error()), "")), " ")
	if len(text) > first+last {
		text = text[:first] + " … " + text[len(text)-last:]
	}
	return strings.ToValidUTF8(text, "")
}

func (s said) Unwrap() error { return s.error }

// readable returns the result of a request, with its error made readable for people.
func readable[T any](result T, err error) (T, error) {
	if err != nil {
		err = said{err}
	}
	return result, err
}

// requests wraps a client. The methods below are for requests whose parameters the engine
// interprets or passes on to others, or that may have to wait; other requests fail with short
// messages of the engine.
type requests struct{ *client.Client }

func (r requests) ContainerCreate(ctx context.Context, o client.ContainerCreateOptions) (client.ContainerCreateResult, error) {
	return readable(r.Client.ContainerCreate(ctx, o))
}

func (r requests) ContainerStart(ctx context.Context, id string, o client.ContainerStartOptions) (client.ContainerStartResult, error) {
	return readable(r.Client.ContainerStart(ctx, id, o))
}

func (r requests) ContainerCommit(ctx context.Context, id string, o client.ContainerCommitOptions) (client.ContainerCommitResult, error) {
	return readable(r.Client.ContainerCommit(ctx, id, o))
}

func (r requests) CopyToContainer(ctx context.Context, id string, o client.CopyToContainerOptions) (client.CopyToContainerResult, error) {
	return readable(r.Client.CopyToContainer(ctx, id, o))
}

func (r requests) ImageBuild(ctx context.Context, files io.Reader, o client.ImageBuildOptions) (client.ImageBuildResult, error) {
	return readable(r.Client.ImageBuild(ctx, files, o))
}

func (r requests) ImageImport(ctx context.Context, from client.ImageImportSource, ref string, o client.ImageImportOptions) (client.ImageImportResult, error) {
	return readable(r.Client.ImageImport(ctx, from, ref, o))
}

func (r requests) ImagePull(ctx context.Context, ref string, o client.ImagePullOptions) (client.ImagePullResponse, error) {
	return readable(r.Client.ImagePull(ctx, ref, o))
}

func (r requests) ImagePush(ctx context.Context, ref string, o client.ImagePushOptions) (client.ImagePushResponse, error) {
	return readable(r.Client.ImagePush(ctx, ref, o))
}

func (r requests) ImageRemove(ctx context.Context, ref string, o client.ImageRemoveOptions) (client.ImageRemoveResult, error) {
	return readable(r.Client.ImageRemove(ctx, ref, o))
}

func (r requests) NetworkCreate(ctx context.Context, name string, o client.NetworkCreateOptions) (client.NetworkCreateResult, error) {
	return readable(r.Client.NetworkCreate(ctx, name, o))
}

func (r requests) VolumeCreate(ctx context.Context, o client.VolumeCreateOptions) (client.VolumeCreateResult, error) {
	return readable(r.Client.VolumeCreate(ctx, o))
}

func (r requests) ContainerAttach(ctx context.Context, id string, o client.ContainerAttachOptions) (client.ContainerAttachResult, error) {
	return readable(r.Client.ContainerAttach(ctx, id, o))
}

func (r requests) ContainerList(ctx context.Context, o client.ContainerListOptions) (client.ContainerListResult, error) {
	return readable(r.Client.ContainerList(ctx, o))
}

func (r requests) ContainerRemove(ctx context.Context, id string, o client.ContainerRemoveOptions) (client.ContainerRemoveResult, error) {
	return readable(r.Client.ContainerRemove(ctx, id, o))
}

func (r requests) NetworkList(ctx context.Context, o client.NetworkListOptions) (client.NetworkListResult, error) {
	return readable(r.Client.NetworkList(ctx, o))
}

func (r requests) NetworkRemove(ctx context.Context, id string, o client.NetworkRemoveOptions) (client.NetworkRemoveResult, error) {
	return readable(r.Client.NetworkRemove(ctx, id, o))
}

func (r requests) VolumeRemove(ctx context.Context, name string, o client.VolumeRemoveOptions) (client.VolumeRemoveResult, error) {
	return readable(r.Client.VolumeRemove(ctx, name, o))
}
