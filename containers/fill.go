package containers

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
)

const fillDir = "fill"

// giveVolume makes the directory of a volume the user's own, by number.
func (b *Backend) giveVolume(ctx context.Context, name, user string) error {
	header := tar.Header{Typeflag: tar.TypeDir, Name: fillDir + "/", Mode: 0o755}
	if _, err := fmt.Sscanf(user, "%d:%d", &header.Uid, &header.Gid); err != nil {
		return fmt.Errorf("user %q: %w", user, err)
	}
	var content bytes.Buffer
	out := tar.NewWriter(&content)
	if err := out.WriteHeader(&header); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	mounts := []mount.Mount{{Type: mount.TypeVolume, Source: name, Target: "/" + fillDir}}
	return b.withImage(ctx, b.guest.id, mounts, func(id string) error {
		return b.engine.CopyToContainer(ctx, id, "/", &content, container.CopyToContainerOptions{})
	})
}
