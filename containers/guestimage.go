package containers

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"github.com/waza-isolate/waza/sandbox"
)

const guestRepository = "waza-guest"

// guestExecutable finds the executable that becomes process 1: ours, where the
// engine runs what we are built for, else the one beside us that is.
func guestExecutable(arch string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if runtime.GOOS == "linux" && runtime.GOARCH == arch {
		return self, nil
	}
	beside := filepath.Join(filepath.Dir(self), "waza-linux-"+arch)
	if _, err := os.Stat(beside); err != nil {
		return "", fmt.Errorf("the engine runs linux/%s and this is %s/%s: build the other executable with GOOS=linux GOARCH=%s CGO_ENABLED=0 go build -o %s ./cmd/waza",
			arch, runtime.GOOS, runtime.GOARCH, arch, beside)
	}
	return beside, nil
}

// checkStatic refuses an executable that would not run in an empty image.
func checkStatic(path, arch string) error {
	file, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s cannot be process 1 of a container: %w", path, err)
	}
	defer func() { _ = file.Close() }()
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	if want, ok := machines[arch]; ok && file.Machine != want {
		return fmt.Errorf("%s is for %s and the engine for %s", path, file.Machine, arch)
	}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is linked dynamically and would not run in every image: build it with CGO_ENABLED=0 (make build does)", path)
		}
	}
	return nil
}

// ensureGuestImage makes the image that holds our executable and nothing else,
// where the engine does not have it yet. Its tag is its content, whose SHA-256 is sum.
func (e *engine) ensureGuestImage(ctx context.Context, path, sum string) (info imageInfo, err error) {
	if err := checkStatic(path, e.arch()); err != nil {
		return imageInfo{}, err
	}
	ref := guestReference(sum)
	defer func() { info.executable, info.layer = sum, info.id }()
	info, err = e.inspectImage(ctx, ref)
	if !errdefs.IsNotFound(err) {
		return info, err
	}
	content, w := io.Pipe()
	go func() {
		_ = w.CloseWithError(writeLayer(w, []layerFile{{name: sandbox.GuestPath, executable: path}, {name: filesDir, dir: true}}))
	}()
	defer func() { _ = content.Close() }()
	progress, err := e.ImageImport(ctx, image.ImportSource{Source: content, SourceName: "-"}, ref, image.ImportOptions{
		Message: "process 1 of every container of a trial",
	})
	if err != nil {
		return imageInfo{}, fmt.Errorf("import guest image: %w", err)
	}
	_, err = io.Copy(io.Discard, progress)
	if err = errors.Join(err, progress.Close()); err != nil {
		return imageInfo{}, fmt.Errorf("import guest image: %w", err)
	}
	return e.inspectImage(ctx, ref)
}

// guestReference is the name of the image that holds the executable of that SHA-256.
func guestReference(sum string) string { return guestRepository + ":" + sum[:min(16, len(sum))] }

// guestImages are those of all builds.
func (e *engine) guestImages(ctx context.Context) ([]image.Summary, error) {
	return e.ImageList(ctx, image.ListOptions{Filters: filters.NewArgs(filters.Arg("reference", guestRepository))})
}

// oldGuest is the age from which the image of another build than ours is taken for
// one that nobody runs any more.
const oldGuest = 24 * time.Hour

// oldGuests are the references of guest images that gc removes.
func oldGuests(all []image.Summary, own string, now time.Time) []string {
	var old []string
	for _, i := range all {
		if now.Sub(time.Unix(i.Created, 0)) < oldGuest {
			continue
		}
		for _, ref := range i.RepoTags {
			if strings.HasPrefix(ref, guestRepository+":") && ref != own {
				old = append(old, ref)
			}
		}
	}
	return old
}

// removeGuest removes a guest image that no container uses, and says whether it did.
func (e *engine) removeGuest(ctx context.Context, ref string) (bool, error) {
	_, err := e.ImageRemove(ctx, ref, image.RemoveOptions{})
	if errdefs.IsConflict(err) {
		return false, nil // a run of that build is alive
	}
	return err == nil, wrapRemoval("image", ref, err)
}
