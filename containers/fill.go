package containers

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
)

const fillDir = "fill"

// file is what goes into a volume before anything mounts it.
type file struct {
	name    string
	content string
}

// fill writes files into a volume through a container that is never started. The
// engine takes no files for a mount that is read-only, which the volume is
// everywhere else.
func (b *Backend) fill(ctx context.Context, volume string, files ...file) error {
	return b.fillAs(ctx, volume, "0:0", files...)
}

// fillAs is fill, and makes the volume's directory the user's own.
func (b *Backend) fillAs(ctx context.Context, volume, user string, files ...file) (err error) {
	content, err := fillTar(user, files)
	if err != nil {
		return err
	}
	id, err := b.engine.createContainer(ctx,
		&container.Config{Image: b.guest.id, Entrypoint: []string{"-"}, Labels: labels(b.run, wholeRun, roleGuest)},
		&container.HostConfig{NetworkMode: "none", Mounts: []mount.Mount{{Type: mount.TypeVolume, Source: volume, Target: "/" + fillDir}}},
		nil, "")
	if err != nil {
		return fmt.Errorf("fill volume %s: %w", volume, err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		err = errors.Join(err, b.engine.ContainerRemove(ctx, id, container.RemoveOptions{Force: true}))
	}()
	if err := b.engine.CopyToContainer(ctx, id, "/", bytes.NewReader(content), container.CopyToContainerOptions{}); err != nil {
		return fmt.Errorf("fill volume %s: %w", volume, err)
	}
	return nil
}

func fillTar(user string, files []file) ([]byte, error) {
	uid, gid, _ := strings.Cut(user, ":")
	u, err := strconv.Atoi(uid)
	if err != nil {
		return nil, fmt.Errorf("user %q has no number: %w", user, err)
	}
	g, err := strconv.Atoi(gid)
	if err != nil {
		g = u
	}
	var buf bytes.Buffer
	out := tar.NewWriter(&buf)
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: fillDir + "/", Mode: 0o755, Uid: u, Gid: g}); err != nil {
		return nil, err
	}
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: fillDir + "/" + f.name, Mode: 0o444, Size: int64(len(f.content))}
		if err := out.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := out.Write([]byte(f.content)); err != nil {
			return nil, err
		}
	}
	return buf.Bytes(), out.Close()
}
