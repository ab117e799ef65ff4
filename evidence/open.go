package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// ErrNotPlain is the error for anything that a run directory must not hold: links, pipes,
// devices, and names that lead outside.
var ErrNotPlain = errors.New("a run directory holds regular files only")

// Open opens a regular file in dir, which may come from someone else: it follows no link in
// name, opens nothing outside dir, and does not block on pipes. Errors other than
// ErrNotPlain are [*fs.PathError].
func Open(dir, name string) (*os.File, error) {
	file, err := openPlain(dir, name)
	if err == nil || errors.Is(err, ErrNotPlain) {
		return file, err
	}
	return nil, &fs.PathError{Op: "open", Path: filepath.Join(dir, name), Err: files.Cause(err)}
}

// ReadFile reads the file that [Open] opens.
func ReadFile(dir, name string) ([]byte, error) {
	file, err := Open(dir, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(file)
}

// Limits on what is read from a run directory into memory at once, since the directory may
// come from someone else.
const (
	maxDocument = 256 << 20 // bytes of a JSON document
	maxRecords  = 1 << 30   // bytes of a file of lines that is read as a whole
)

// ReadJSON opens a file as [Open] does and decodes its JSON document into v. It rejects
// documents of more than 256 MiB or with too many values.
func ReadJSON(dir, name string, v any) error {
	file, err := Open(dir, name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if err := sizeUpTo(file, maxDocument); err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(file, maxDocument))
	if err != nil {
		return err
	}
	if jsontext.MoreThan(jsontext.MaxValues, data) {
		return fmt.Errorf("%s has more than %d values", filepath.Join(dir, name), jsontext.MaxValues)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s is damaged: %w", filepath.Join(dir, name), err)
	}
	return nil
}

// sizeUpTo returns an error if the file is larger than most bytes.
func sizeUpTo(file *os.File, most int64) error {
	size, err := regularSize(file)
	if err == nil && size > most {
		err = fmt.Errorf("%s has %d bytes, more than the maximum of %d", file.Name(), size, most)
	}
	return err
}

func openPlain(dir, name string) (*os.File, error) {
	if !filepath.IsLocal(name) {
		return nil, fmt.Errorf("%s names %q, which is not in it: %w", dir, name, ErrNotPlain)
	}
	root, err := files.Root(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	name = filepath.Clean(name)
	for at, c := range name + "/" {
		if c != filepath.Separator {
			continue
		}
		info, err := root.Lstat(name[:at])
		if err != nil {
			return nil, err
		}
		if err := plain(filepath.Join(dir, name[:at]), info.Mode()); err != nil {
			return nil, err
		}
	}
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat() // it may have been replaced
	if err == nil && info.IsDir() {
		err = syscall.EISDIR
	} else if err == nil {
		err = plain(file.Name(), info.Mode())
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// CheckPlain returns [ErrNotPlain] if dir contains anything other than regular files and directories, or a
// large file that consists almost only of holes, which takes long to read and which waza never writes.
func CheckPlain(dir string) error {
	return filepath.WalkDir(strings.TrimRight(dir, "/")+"/", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed during the walk
			return nil
		case err != nil:
			return err
		}
		if err := plain(path, entry.Type()); err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && isHollow(info) {
			err = fmt.Errorf("%s has %d MiB, of which almost nothing was ever written: %w", path, info.Size()>>20, ErrNotPlain)
		}
		return err
	})
}

// isHollow reports whether a file is larger than 1 GiB but takes less than 1/64 of that on disk. Nothing that
// waza writes is so compressible.
func isHollow(info fs.FileInfo) bool {
	taken, ok := files.OnDisk(info)
	return ok && info.Size() > 1<<30 && taken < info.Size()/64
}

// plain returns an error for anything other than a regular file or a directory.
func plain(path string, mode fs.FileMode) error {
	what := "neither a file nor a directory"
	switch {
	case mode.IsRegular() || mode.IsDir():
		return nil
	case mode&fs.ModeSymlink != 0:
		what = "a link"
	case mode&fs.ModeNamedPipe != 0:
		what = "a named pipe"
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	case mode&fs.ModeDevice != 0:
		what = "a device"
	}
	return fmt.Errorf("%s is %s: %w", path, what, ErrNotPlain)
}
