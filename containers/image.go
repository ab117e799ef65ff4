package containers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/registry"

	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox/process"
)

// ErrImage says that an image cannot be used as it is.
var ErrImage = errors.New("unusable image")

// inspectImage reads what plans need; an image the engine does not have is
// errdefs.IsNotFound.
func (e *engine) inspectImage(ctx context.Context, ref string) (imageInfo, error) {
	found, err := e.ImageInspect(ctx, ref)
	if err != nil {
		return imageInfo{}, err
	}
	info := imageInfo{id: found.ID, digests: slices.Sorted(slices.Values(found.RepoDigests))}
	if found.Config != nil {
		info.user, info.ours = found.Config.User, found.Config.Labels[labelImage] != ""
		info.entrypoint, info.cmd = found.Config.Entrypoint, found.Config.Cmd
		if info.dir = found.Config.WorkingDir; info.dir != "" {
			info.dir = path.Clean("/" + info.dir)
		}
		for dir := range found.Config.Volumes {
			if dir = path.Clean("/" + dir); mcpconfig.ReservedDir(dir) || strings.ContainsAny(dir, ":\x00") {
				return imageInfo{}, fmt.Errorf("%w: %q declares a volume at %s, where an empty directory would hide what a container needs; build it without that VOLUME", ErrImage, ref, dir)
			}
			info.volumes = append(info.volumes, dir)
		}
		slices.Sort(info.volumes)
		check := found.Config.Healthcheck
		info.health = check != nil && len(check.Test) > 0 && check.Test[0] != "NONE"
	}
	return info, nil
}

// program is the command line of p in a container of the image.
func (i imageInfo) program(p process.Spec) []string {
	switch {
	case len(p.Args) == 0:
		return slices.Concat(i.entrypoint, i.cmd)
	case p.OfImage:
		return slices.Concat(i.entrypoint, p.Args)
	}
	return p.Args
}

// ensureImage returns an image, pulled as policy says, one of
// mcpconfig.PullPolicies; empty is mcpconfig.PullMissing.
func (e *engine) ensureImage(ctx context.Context, ref, policy string, say func(string)) (imageInfo, error) {
	if policy != mcpconfig.PullAlways {
		info, err := e.inspectImage(ctx, ref)
		switch {
		case !errdefs.IsNotFound(err):
			return info, err
		case policy == mcpconfig.PullNever:
			return imageInfo{}, fmt.Errorf("image %q is not on the engine and its pull policy is never; pull or build it yourself, or set the policy to missing", ref)
		}
	}
	why, instead := "is not on the engine", "build it, or correct its name"
	if policy == mcpconfig.PullAlways {
		why, instead = "has the pull policy always", "correct its name, or set the policy to missing to use what the engine has"
	}
	say("pulling image " + ref)
	if err := e.pullWithLogin(ctx, ref, instead); err != nil {
		return imageInfo{}, fmt.Errorf("image %q %s and cannot be pulled; %w", ref, why, err)
	}
	return e.inspectImage(ctx, ref)
}

// pullWithLogin pulls with what the user's Docker configuration has for the
// image's registry. Where that cannot be had the image may still be public. Errors
// begin with what to do: instead, where it is no matter of a login.
func (e *engine) pullWithLogin(ctx context.Context, ref, instead string) error {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return err
	}
	host := reference.Domain(named)
	auth, authErr := loginFor(ctx, host)
	header := ""
	if auth != (registry.AuthConfig{}) {
		if header, err = registry.EncodeAuthConfig(auth); err != nil {
			return err
		}
	}
	if err := e.pull(ctx, ref, header); err != nil {
		return explainPull(err, authErr, header != "", host, instead)
	}
	return nil
}

// explainPull says what to do about err.
func explainPull(err, authErr error, loggedIn bool, host, instead string) error {
	switch {
	case authErr != nil:
		return fmt.Errorf("%w: %w", authErr, err)
	case !wantsLogin(err):
		return fmt.Errorf("%s: %w", instead, err)
	case loggedIn:
		return fmt.Errorf("its registry refuses the login that the Docker configuration has; log in again, as by docker login %s: %w", host, err)
	case strings.Contains(err.Error(), "denied"): // what many say of what they do not have
		return fmt.Errorf("%s; if it is private, its registry needs a login, as by docker login %s: %w", instead, host, err)
	}
	return fmt.Errorf("its registry needs a login, as by docker login %s: %w", host, err)
}

func (e *engine) pull(ctx context.Context, ref, auth string) error {
	progress, err := e.ImagePull(ctx, ref, image.PullOptions{RegistryAuth: auth})
	if err != nil {
		return err
	}
	defer func() { _ = progress.Close() }()
	for lines := json.NewDecoder(progress); ; {
		var line struct {
			Error string `json:"error"`
		}
		switch err := lines.Decode(&line); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case line.Error != "":
			return errors.New(line.Error)
		}
	}
}

// wantsLogin says whether the engine could not pull for want of a login. It tells
// no more than the registry's words.
func wantsLogin(err error) bool {
	if errdefs.IsUnauthorized(err) || errdefs.IsPermissionDenied(err) {
		return true
	}
	said := strings.ToLower(err.Error())
	return slices.ContainsFunc([]string{"unauthorized", "no basic auth credentials", "authentication required", "denied"}, func(word string) bool {
		return strings.Contains(said, word)
	})
}
