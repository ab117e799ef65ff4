// Package files reads files up to a maximum size, computes their digests, and returns the
// free space of a file system.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrTooLarge is wrapped by errors about files that exceed the maximum size.
var ErrTooLarge = errors.New("is larger")

// Read reads a regular file of up to most bytes. It never blocks on a pipe or device. Its
// errors are [*fs.PathError].
func Read(path string, most int64) ([]byte, error) { return read(path, most, true) }

// ReadNamed is like [Read] for a file named by the user on a command line, which may be a
// pipe.
func ReadNamed(path string, most int64) ([]byte, error) { return read(path, most, false) }

func read(path string, most int64, regular bool) (_ []byte, err error) {
	defer func() {
		if err != nil {
			err = &fs.PathError{Op: "read", Path: path, Err: Cause(err)}
		}
	}()
	flags := os.O_RDONLY
	if regular {
		flags |= syscall.O_NONBLOCK // opening a pipe would wait for its writer
	}
	file, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, syscall.EISDIR
	case regular && !info.Mode().IsRegular():
		return nil, errors.New("is not a regular file")
	}
	return ReadFrom(file, most)
}

// Cause returns the error without the file's name.
func Cause(err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return of.Err
	}
	return err
}

// IsInside reports whether a slash-separated relative path does not leave its starting
// directory.
func IsInside(p string) bool {
	return filepath.IsLocal(p) && !path.IsAbs(p) && !strings.ContainsAny(p, "\\\x00")
}

// ReadFrom reads r to its end. It returns [ErrTooLarge] if there are more than most bytes.
func ReadFrom(r io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(data)) > most:
		return nil, fmt.Errorf("%w than %s", ErrTooLarge, size(most))
	}
	return data, nil
}

// size formats a number of bytes, in KiB if it is a multiple of 1024.
func size(n int64) string {
	if n > 0 && n%(1<<10) == 0 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
