package containers

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"

	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/sandbox"
)

// Labels of a layer: an image that is another one with files of ours on top. Containers
// get our files so, and not by a volume, because each container sees the files of its
// image as inodes of its own. A file in a volume is one inode to all that mount it, and
// what holds a lock on it, or watches it, tells the others something.
const (
	layerRepository = "waza-layer"
	imageLayer      = "layer"
	labelParent     = "waza.parent" // the id of the image below
)

// guestLayer returns the id of base with our executable, and with the accounts of the
// users that containers are given. It is made on first use and kept for other runs.
func (b *Backend) guestLayer(ctx context.Context, of string, base imageInfo) (_ string, err error) {
	users := b.engine.userRange()
	sum := sha256.Sum256([]byte(base.id + "\n" + strconv.Itoa(users.first)))
	ref := layerReference(b.guest.executable) + hex.EncodeToString(sum[:8])
	if made, err := b.engine.inspectImage(ctx, ref); !errdefs.IsNotFound(err) {
		return made.id, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("image %q cannot be given the files of waza: %w", of, err)
		}
	}()
	var made container.CommitResponse
	err = b.withImage(ctx, base.id, nil, func(id string) error {
		passwd, group, err := b.engine.accounts(ctx, id)
		if err != nil {
			return err
		}
		r, w := io.Pipe()
		go func() {
			_ = w.CloseWithError(writeLayer(w, []layerFile{
				{name: sandbox.GuestPath, executable: b.executable},
				{name: "/etc/passwd", text: users.passwd(passwd)},
				{name: "/etc/group", text: users.group(group)},
			}))
		}()
		err = b.engine.CopyToContainer(ctx, id, "/", r, container.CopyToContainerOptions{})
		if err = errors.Join(err, r.Close()); err != nil {
			return err
		}
		ctx, cancel := creating(ctx)
		defer cancel()
		made, err = b.engine.ContainerCommit(ctx, id, container.CommitOptions{Reference: ref, Config: &container.Config{
			// An image keeps the labels of its container that it is not given others for.
			Labels: map[string]string{labelImage: imageLayer, labelParent: base.id, images.LabelContent: of, labelRun: ""},
		}})
		return err
	})
	if err != nil {
		return "", err
	}
	return made.ID, b.engine.dropLayers(ctx, b.guest.executable, b.run)
}

// withImage calls use with the id of a container of an image that is never started, and
// is removed then.
func (b *Backend) withImage(ctx context.Context, image string, mounts []mount.Mount, use func(id string) error) (err error) {
	id, err := b.engine.createContainer(ctx,
		&container.Config{Image: image, Entrypoint: []string{"-"}, WorkingDir: "/", Labels: labels(b.run, wholeRun, roleAside)},
		&container.HostConfig{NetworkMode: "none", Mounts: mounts}, nil, "")
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		err = errors.Join(err, b.engine.removeContainer(ctx, id))
	}()
	return use(id)
}

// layerFile is a file of root's in a layer: a text that all may read, an executable of
// ours, or a directory that all may write to.
type layerFile struct {
	name, text, executable string
	dir                    bool
}

// writeLayer writes files as tar, and the directories they lie in.
func writeLayer(w io.Writer, files []layerFile) error {
	out := tar.NewWriter(w)
	for _, f := range files {
		if err := f.write(out); err != nil {
			return err
		}
	}
	return out.Close()
}

func (f layerFile) write(out *tar.Writer) error {
	name := strings.TrimPrefix(f.name, "/")
	for i, c := range name {
		if c != '/' {
			continue
		}
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name[:i+1], Mode: 0o755}); err != nil {
			return err
		}
	}
	if f.dir {
		return out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o777})
	}
	header := tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(f.text))}
	var content io.Reader = strings.NewReader(f.text)
	if f.executable != "" {
		executable, err := os.Open(f.executable)
		if err != nil {
			return err
		}
		defer func() { _ = executable.Close() }()
		info, err := executable.Stat()
		if err != nil {
			return err
		}
		header.Mode, header.Size, content = 0o755, info.Size(), executable
	}
	if err := out.WriteHeader(&header); err != nil {
		return err
	}
	_, err := io.CopyN(out, content, header.Size)
	return err
}

// youngLayers is the age up to which layers are kept that another run may be about to use:
// those of another build, and those that lost their name to one made at the same time.
const youngLayers = time.Hour

// layerReference is what the names of layers with that executable begin with.
func layerReference(executable string) string {
	return layerRepository + ":" + executable[:min(16, len(executable))] + "-"
}

// dropLayers removes the layers of images that have lost their names, and old ones with
// another executable than own, unless another run than the one given is alive.
func (e *engine) dropLayers(ctx context.Context, own, run string) error {
	live, err := e.liveRuns(ctx)
	delete(live, run)
	if err != nil || len(live) > 0 {
		return err
	}
	all, err := e.ImageList(ctx, image.ListOptions{})
	if err != nil {
		return err
	}
	own = layerReference(own)
	var errs []error
	for _, id := range staleLayers(all, own, e.now().Add(-youngLayers)) {
		if err := e.dropImage(ctx, id); !errdefs.IsConflict(err) { // a container of somebody's has it
			errs = append(errs, wrapRemoval("image", id, err))
		}
	}
	return errors.Join(errs...)
}

// staleLayers returns the ids of layers that nobody will ask for.
func staleLayers(all []image.Summary, own string, before time.Time) (ids []string) {
	named := map[string]bool{}
	for _, i := range all {
		named[i.ID] = len(i.RepoTags)+len(i.RepoDigests) > 0
	}
	for _, i := range all {
		strange := func(tag string) bool { return !strings.HasPrefix(tag, layerRepository+":") }
		if i.Labels[labelImage] != imageLayer || slices.ContainsFunc(i.RepoTags, strange) { // anybody may give it the label
			continue
		}
		current := slices.ContainsFunc(i.RepoTags, func(tag string) bool { return strings.HasPrefix(tag, own) })
		old := time.Unix(i.Created, 0).Before(before)
		if !named[i.Labels[labelParent]] || !current && old {
			ids = append(ids, i.ID)
		}
	}
	return ids
}
