package containers

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/sandbox"
)

const (
	// guestRepository is the name of images that only contain our executable, tagged by its
	// SHA-256.
	guestRepository = "waza-guest"
	// layerRepository is the name of images with our files on top of others. The files are not
	// in a volume, because containers that mount it would share inodes, and locks and watches
	// on them would be visible to each other. Files of an image are separate inodes in each
	// container.
	layerRepository = "waza-layer"
)

// guestReference returns the reference of the image that contains the executable with that
// SHA-256.
func guestReference(sum string) string { return guestRepository + ":" + sum[:min(16, len(sum))] }

// layerReference returns the prefix of references of layers with that executable.
func layerReference(executable string) string {
	return layerRepository + ":" + executable[:min(16, len(executable))] + "-"
}

// ensureGuest creates the image that only contains our executable, if the engine does not have
// it.
func (s *imageStore) ensureGuest(ctx context.Context) error {
	ref := guestReference(s.program.sum)
	info, err := s.engine.inspectImage(ctx, ref)
	if errdefs.IsNotFound(err) {
		if err := s.importGuest(ctx, ref); err != nil {
			return fmt.Errorf("import guest image: %w", err)
		}
		info, err = s.engine.inspectImage(ctx, ref)
	}
	info.layer, info.Reference = info.ID, ref
	s.guest = info
	return err
}

func (s *imageStore) importGuest(ctx context.Context, ref string) error {
	content := layerTar([]layerFile{{name: sandbox.GuestPath, program: &s.program}, {name: filesDir, dir: true, mode: 0o777}})
	defer func() { _ = content.Close() }()
	progress, err := s.engine.ImageImport(ctx, client.ImageImportSource{Source: content, SourceName: "-"}, ref, client.ImageImportOptions{
		Message: "process 1 of every container of a trial",
	})
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, progress)
	return errors.Join(err, progress.Close())
}

// addLayer sets the layer of an image: an image with our executable and the accounts of
// containers' users on top. It is created on first use and kept for other runs.
func (s *imageStore) addLayer(ctx context.Context, of string, base *imageInfo) error {
	users := userRangeOf(s.engine.info)
	sum := sha256.Sum256([]byte(base.ID + "\n" + strconv.Itoa(users.first)))
	ref := layerReference(s.program.sum) + hex.EncodeToString(sum[:8])
	base.Reference = ref
	if made, err := s.engine.inspectImage(ctx, ref); !errdefs.IsNotFound(err) {
		base.layer = made.ID
		return err
	}
	var made client.ContainerCommitResult
	err := s.engine.withImage(ctx, s.run, base.ID, nil, func(id string) error {
		passwd, group, err := readAccounts(ctx, s.engine, id)
		if err != nil {
			return err
		}
		content := layerTar([]layerFile{
			{name: sandbox.GuestPath, program: &s.program},
			{name: "/etc/passwd", text: users.passwd(passwd)},
			{name: "/etc/group", text: users.group(group)},
		})
		_, err = s.engine.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: "/", Content: content})
		if err = errors.Join(err, content.Close()); err != nil {
			return err
		}
		ctx, cancel := creating(ctx)
		defer cancel()
		made, err = s.engine.ContainerCommit(ctx, id, client.ContainerCommitOptions{Reference: ref, Config: &container.Config{
			// Labels of the container that are not overridden are kept.
			Labels: map[string]string{labelImage: imageLayer, labelParent: base.ID, images.LabelContent: of, labelRun: ""},
		}})
		return err
	})
	if err == nil {
		err = sweeper{s.engine}.dropLayers(ctx, s.program.sum, s.run)
	}
	if err != nil {
		return fmt.Errorf("image %q cannot be given the files of waza: %w", of, err)
	}
	base.layer = made.ID
	return nil
}

// giveVolume sets the owner of a volume's directory. user is "uid:gid".
func (s *imageStore) giveVolume(ctx context.Context, name, user string) error {
	root := layerFile{name: "/volume", dir: true, mode: 0o755}
	if _, err := fmt.Sscanf(user, "%d:%d", &root.uid, &root.gid); err != nil {
		return fmt.Errorf("user %q: %w", user, err)
	}
	mounts := []mount.Mount{{Type: mount.TypeVolume, Source: name, Target: root.name}}
	return s.engine.withImage(ctx, s.run, s.guest.ID, mounts, func(id string) error {
		content := layerTar([]layerFile{root})
		_, err := s.engine.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: "/", Content: content})
		return errors.Join(err, content.Close())
	})
}

// layerFile is a file of a layer: a readable text, an executable, or a directory.
type layerFile struct {
	name, text string
	program    *executable
	dir        bool
	mode       int64 // for a directory
	uid, gid   int   // 0 for root
}

// layerTar returns files and their parent directories as a tar. The caller must close it.
func layerTar(files []layerFile) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		out := tar.NewWriter(w)
		err := each(files, func(f layerFile) error { return f.write(out) })
		_ = w.CloseWithError(errors.Join(err, out.Close()))
	}()
	return r
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
		return out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: f.mode, Uid: f.uid, Gid: f.gid})
	}
	header := tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(f.text))}
	var content io.Reader = strings.NewReader(f.text)
	if f.program != nil {
		executable, err := f.program.open()
		if err != nil {
			return err
		}
		defer func() { _ = executable.Close() }()
		header.Mode, header.Size, content = 0o755, f.program.size, executable
	}
	if err := out.WriteHeader(&header); err != nil {
		return err
	}
	_, err := io.CopyN(out, content, header.Size)
	return err
}
