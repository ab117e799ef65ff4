package evidence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// DiskFull reports whether a write failed because the disk or the quota is full.
func DiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// explained adds to a write error what the user has to fix.
func explained(err error) error {
	if DiskFull(err) {
		return fmt.Errorf("the disk is full: %w", err)
	}
	return err
}

// roomFile reserves disk space during a trial, so that trial.json and verdicts.json can be
// written even if the disk has filled up.
const (
	roomFile = ".room"
	roomSize = 128 << 10
)

// keepRoom reserves the space in dir. If there is not enough, it leaves no file.
func keepRoom(dir string) error {
	path := filepath.Join(dir, roomFile)
	err := os.WriteFile(path, make([]byte, roomSize), 0o644)
	if err != nil {
		return explained(errors.Join(err, dropRoom(dir)))
	}
	return nil
}

// CheckRoom returns an error if the disk of dir lacks the space that a trial reserves.
func CheckRoom(dir string) error {
	if err := keepRoom(dir); err != nil {
		return err
	}
	return dropRoom(dir)
}

// dropRoom frees the reserved space.
func dropRoom(dir string) error {
	err := os.Remove(filepath.Join(dir, roomFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
