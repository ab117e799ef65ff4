// Package files reads files up to a maximum size, writes them without following links, computes
// their digests, locks them, and returns the free space of a file system.
package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"
)

// Classes of errors.
var (
	// ErrTooLarge is wrapped by errors about files that exceed the maximum size.
	ErrTooLarge = errors.New("is larger")
	// ErrNotRegular is wrapped by errors about pipes, sockets and devices.
	ErrNotRegular = errors.New("is not a regular file")
	// ErrLocked is returned by [Lock] if another process has the lock.
	ErrLocked = errors.New("another process has the lock")
	// ErrNoLocks is returned by [Lock] on systems where directories cannot be locked.
	ErrNoLocks = errors.New("directories cannot be locked on this system")
)

// Open opens a regular file for reading. It returns an error that names any other kind of file, and
// never blocks, even on a pipe without a writer.
func Open(path string) (*os.File, error) { return regular(os.OpenFile(path, waitless, 0)) }

// OpenIn is like [Open] for a path in a directory. Links in the path cannot lead out of the
// directory.
func OpenIn(dir, path string) (*os.File, error) {
	root, err := Root(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	return OpenAt(root, path)
}

// OpenAt is like [Open] for a path in an open directory. Links in the path cannot lead out of the
// directory.
func OpenAt(root *os.Root, path string) (*os.File, error) {
	return regular(root.OpenFile(path, waitless, 0))
}

// Root is like [os.OpenRoot], but never blocks on a pipe.
func Root(dir string) (*os.Root, error) {
	return os.OpenRoot(filepath.Clean(dir) + "/") // the slash makes opening anything but a directory fail
}

const waitless = os.O_RDONLY | syscall.O_NONBLOCK

// regular closes file and returns an error if it is not a regular file.
func regular(file *os.File, err error) (*os.File, error) {
	if of, ok := errors.AsType[*fs.PathError](err); ok && of.Err == syscall.ENXIO { // a socket, or a device without a driver
		of.Err = ErrNotRegular
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	switch {
	case err == nil && info.IsDir():
		err = syscall.EISDIR
	case err == nil && !info.Mode().IsRegular():
		err = ErrNotRegular
	}
	if err != nil {
		_ = file.Close()
		return nil, &fs.PathError{Op: "open", Path: file.Name(), Err: Cause(err)}
	}
	return file, nil
}

// Text returns the content of a text file without its byte order mark. Its errors contain the
// position of the first byte that is not UTF-8.
func Text(content []byte) ([]byte, error) {
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	for at, line := 0, 1; at < len(content); {
		r, size := utf8.DecodeRune(content[at:])
		switch {
		case r == utf8.RuneError && size == 1:
			begin := bytes.LastIndexByte(content[:at], '\n') + 1
			return nil, fmt.Errorf("is not UTF-8 text: it has the byte %#x in line %d, column %d; save it as UTF-8", content[at], line, utf8.RuneCount(content[begin:at])+1)
		case r == '\n':
			line++
		}
		at += size
	}
	return content, nil
}

// Read reads a regular file of up to most bytes. It never blocks on a pipe or device. Its
// errors are [*fs.PathError].
func Read(path string, most int64) (_ []byte, err error) {
	defer func() {
		if err != nil {
			err = &fs.PathError{Op: "read", Path: path, Err: Cause(err)}
		}
	}()
	file, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
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
