package containers

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"

	"github.com/waza-isolate/waza/runner"
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
// where the engine does not have it yet. Its tag is its content.
func (e *engine) ensureGuestImage(ctx context.Context, path string) (info imageInfo, err error) {
	if err := checkStatic(path, e.arch()); err != nil {
		return imageInfo{}, err
	}
	executable, err := os.ReadFile(path)
	if err != nil {
		return imageInfo{}, err
	}
	sum := sha256.Sum256(executable)
	defer func() { info.executable = hex.EncodeToString(sum[:]) }()
	ref := guestRepository + ":" + hex.EncodeToString(sum[:8])
	info, err = e.inspectImage(ctx, ref)
	if !errdefs.IsNotFound(err) {
		return info, err
	}
	content, err := guestTar(executable)
	if err != nil {
		return imageInfo{}, err
	}
	progress, err := e.ImageImport(ctx, image.ImportSource{Source: bytes.NewReader(content), SourceName: "-"}, ref, image.ImportOptions{
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

func guestTar(executable []byte) ([]byte, error) {
	var buf bytes.Buffer
	out := tar.NewWriter(&buf)
	name := strings.TrimPrefix(runner.GuestPath, "/")
	err := errors.Join(
		out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "opt/", Mode: 0o755}),
		out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: filepath.Dir(name) + "/", Mode: 0o755}),
		out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(executable))}),
	)
	if err != nil {
		return nil, err
	}
	if _, err := out.Write(executable); err != nil {
		return nil, err
	}
	return buf.Bytes(), out.Close()
}
