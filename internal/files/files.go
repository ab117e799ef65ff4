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
func Read(path string, most int64) ([]byte, error) {
	return whole(path, syscall.O_NONBLOCK, most, func(mode fs.FileMode) error { // opening a pipe would wait for its writer
		if !mode.IsRegular() {
			return errors.New("is not a regular file")
		}
		return nil
	})
}

// ReadNamed is like [Read] for a file named by the user on a command line, which may be a
// pipe.
func ReadNamed(path string, most int64) ([]byte, error) {
	return whole(path, 0, most, func(fs.FileMode) error { return nil })
}

func whole(path string, flags int, most int64, check func(fs.FileMode) error) ([]byte, error) {
	data, err := read(path, flags, most, check)
	if err == nil {
		return data, nil
	}
	return nil, &fs.PathError{Op: "read", Path: path, Err: Cause(err)}
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

func read(path string, flags int, most int64, check func(fs.FileMode) error) (data []byte, err error) {
	file, err := os.OpenFile(path, os.O_RDONLY|flags, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = syscall.EISDIR
	} else if err == nil {
		err = check(info.Mode())
	}
	if err != nil {
		return nil, err
	}
	return ReadFrom(file, most)
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
