// Package wholefile reads what people hand over whole, up to a size: a file that is larger
// is refused before it takes memory, and what is no file before it is waited for.
package wholefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ErrTooLarge is the class of what has more bytes than are read.
var ErrTooLarge = errors.New("is larger")

// Read reads a regular file of at most so many bytes. Its errors are [*fs.PathError].
func Read(path string, most int64) ([]byte, error) {
	data, err := read(path, most)
	if err == nil {
		return data, nil
	}
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		err = of.Err
	}
	return nil, &fs.PathError{Op: "read", Path: path, Err: err}
}

func read(path string, most int64) (data []byte, err error) {
	info, err := os.Stat(path) // to open a pipe is to wait for who writes to it
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, syscall.EISDIR
	case !info.Mode().IsRegular():
		return nil, errors.New("is not a regular file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return ReadFrom(file, most)
}

// ReadFrom reads r to its end, which comes after so many bytes at most; else it fails with
// [ErrTooLarge].
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

// size is a number of bytes in KiB where it is a whole number of these.
func size(n int64) string {
	if n > 0 && n%(1<<10) == 0 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
