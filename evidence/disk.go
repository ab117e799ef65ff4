package evidence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/waza-isolate/waza/internal/files"
)

// DiskFull reports whether a write failed because the disk or the quota is full.
func DiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// explained adds to a write error what the user can do about it.
func explained(err error) error {
	if DiskFull(err) {
		if at, ok := errors.AsType[*fs.PathError](err); ok {
			at.Path = filepath.Clean(at.Path) // a root that begins with . calls its files ./NAME
		}
		return fmt.Errorf("the disk is full: %w", err)
	}
	return err
}

// reserveFile reserves disk space during a trial, so that trial.json and verdicts.json can be
// written even if the disk has filled up.
const (
	reserveFile = ".reserved"
	reserveSize = 128 << 10
)

// reserveSpace reserves disk space in dir. If there is too little, it leaves no file.
func reserveSpace(dir string) error {
	path := filepath.Join(dir, reserveFile)
	file, err := files.Create(path, os.O_TRUNC|os.O_WRONLY)
	if err == nil {
		_, err = file.Write(make([]byte, reserveSize))
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return explained(errors.Join(err, releaseSpace(dir)))
	}
	return nil
}

// leastFree is the number of bytes that must be free on the disk of a run directory before a trial starts.
const leastFree = 16 << 20

// CheckSpace returns an error if the disk of dir, which need not exist yet, has too little space for a trial.
func CheckSpace(dir string) error {
	dir, err := filepath.Abs(dir)
	for err == nil {
		free, known := files.FreeSpace(dir)
		if known {
			return checkFree(free)
		}
		if filepath.Dir(dir) == dir {
			return nil
		}
		dir = filepath.Dir(dir)
	}
	return err
}

func checkFree(free int64) error {
	if free >= leastFree {
		return nil
	}
	return fmt.Errorf("the disk of the run directory has %.1f MiB free, and a trial needs %d MiB: free some, or name another disk with --run-dir", float64(free)/(1<<20), leastFree>>20)
}

// releaseSpace frees the reserved space.
func releaseSpace(dir string) error {
	err := files.Remove(filepath.Join(dir, reserveFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
