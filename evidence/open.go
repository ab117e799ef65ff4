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

// ErrNotPlain is the class of what no run directory holds: links, pipes, devices, and
// names that lead elsewhere.
var ErrNotPlain = errors.New("a run directory holds regular files only")

// Open opens a regular file of dir, which may be a stranger's: no link in name is
// followed, nothing outside of dir is opened, and nothing is waited for. Other errors are
// [*fs.PathError].
func Open(dir, name string) (*os.File, error) {
	file, err := openPlain(dir, name)
	if err == nil || errors.Is(err, ErrNotPlain) {
		return file, err
	}
	return nil, &fs.PathError{Op: "open", Path: filepath.Join(dir, name), Err: files.Cause(err)}
}

// ReadFile reads a file that [Open] opens.
func ReadFile(dir, name string) ([]byte, error) {
	file, err := Open(dir, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(file)
}

// Limits of what is read of a run directory into memory at once: its writer may be a
// stranger.
const (
	maxDocument = 256 << 20 // bytes of a JSON document
	maxRecords  = 1 << 30   // bytes of a file of lines that are held together
)

// ReadJSON decodes the JSON document that a file of dir is, opened as by [Open], into v. It
// refuses a document of more than 256 MiB, or of more values than anybody holds.
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
		return fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	return nil
}

// sizeUpTo fails for a file of more than most bytes.
func sizeUpTo(file *os.File, most int64) error {
	size, err := regularSize(file)
	if err == nil && size > most {
		err = fmt.Errorf("%s has %d bytes, and at most %d are read", file.Name(), size, most)
	}
	return err
}

func openPlain(dir, name string) (*os.File, error) {
	if !filepath.IsLocal(name) {
		return nil, fmt.Errorf("%s names %q, which is not in it: %w", dir, name, ErrNotPlain)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() { // to open a pipe is to wait for who writes to it
		return nil, errors.Join(err, syscall.ENOTDIR)
	}
	root, err := os.OpenRoot(dir)
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
	info, err := file.Stat() // it may have become another
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

// CheckPlain fails with [ErrNotPlain] where something in dir is neither a regular file nor
// a directory.
func CheckPlain(dir string) error {
	return filepath.WalkDir(strings.TrimRight(dir, "/")+"/", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // it went while this looked
			return nil
		case err != nil:
			return err
		}
		return plain(path, entry.Type())
	})
}

// plain fails for what is neither a regular file nor a directory.
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
