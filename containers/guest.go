package containers

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/waza-isolate/waza/internal/files"
)

// executable is a program for containers.
type executable struct {
	sum  string // SHA-256
	size int64
	open func() (io.ReadCloser, error)
}

// guestProgram returns the program that becomes process 1 on engines of an architecture: the
// embedded one; else this executable, if the engine can run it; else waza-linux-ARCH in the same
// directory. digest returns the SHA-256 of a file.
func guestProgram(arch string, digest func(string) (string, error)) (executable, error) {
	if packed, err := embedded.ReadFile("guest/" + arch + ".gz"); err == nil {
		return unpack(packed)
	}
	self, err := os.Executable()
	if err != nil {
		return executable{}, err
	}
	if runtime.GOOS == "linux" && runtime.GOARCH == arch {
		return programAt(self, arch, digest)
	}
	sibling := filepath.Join(filepath.Dir(self), "waza-linux-"+arch)
	if _, err := os.Stat(sibling); err != nil {
		return executable{}, fmt.Errorf("the engine runs linux/%s and this is %s/%s: build the other executable with GOOS=linux GOARCH=%s CGO_ENABLED=0 go build -o %s ./cmd/waza",
			arch, runtime.GOOS, runtime.GOARCH, arch, sibling)
	}
	return programAt(sibling, arch, digest)
}

// unpack decompresses a program that cmd/waza-guest/pack compressed.
func unpack(packed []byte) (executable, error) {
	open := func() (io.ReadCloser, error) { return gzip.NewReader(bytes.NewReader(packed)) }
	r, err := gzip.NewReader(bytes.NewReader(packed)) // reads the header
	if err != nil {
		return executable{}, err
	}
	return executable{sum: r.Comment, size: int64(binary.LittleEndian.Uint32(packed[len(packed)-4:])), open: open}, nil
}

// programAt returns the program in a file, if it runs on engines of an architecture in any image.
func programAt(path, arch string, digest func(string) (string, error)) (executable, error) {
	if err := checkStatic(path, arch); err != nil {
		return executable{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return executable{}, err
	}
	sum, err := digest(path)
	return executable{sum: sum, size: info.Size(), open: func() (io.ReadCloser, error) { return os.Open(path) }}, err
}

// guestSum returns the SHA-256 of our guest for an architecture, or "".
func guestSum(arch string) string {
	own, _ := guestProgram(arch, files.Digest)
	return own.sum
}

// checkStatic returns an error if an executable would not run in an empty image.
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
