package containers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
)

// inspectImage reads what plans need; an image the engine does not have is
// errdefs.IsNotFound.
func (e *engine) inspectImage(ctx context.Context, ref string) (imageInfo, error) {
	found, err := e.ImageInspect(ctx, ref)
	if err != nil {
		return imageInfo{}, err
	}
	info := imageInfo{id: found.ID}
	if found.Config != nil {
		info.user = found.Config.User
		info.command = append(slices.Clone(found.Config.Entrypoint), found.Config.Cmd...)
		info.volumes = slices.Sorted(maps.Keys(found.Config.Volumes))
		check := found.Config.Healthcheck
		info.health = check != nil && len(check.Test) > 0 && check.Test[0] != "NONE"
	}
	return info, nil
}

// ensureImage returns an image, pulled where the engine does not have it.
func (e *engine) ensureImage(ctx context.Context, ref string, say func(string)) (imageInfo, error) {
	info, err := e.inspectImage(ctx, ref)
	if !errdefs.IsNotFound(err) {
		return info, err
	}
	say("pulling image " + ref)
	if err := e.pull(ctx, ref); err != nil {
		return imageInfo{}, fmt.Errorf("image %q is not on the engine and cannot be pulled; build it, or correct its name: %w", ref, err)
	}
	return e.inspectImage(ctx, ref)
}

func (e *engine) pull(ctx context.Context, ref string) error {
	progress, err := e.ImagePull(ctx, ref, image.PullOptions{})
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
