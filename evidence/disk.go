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

// explained returns an error of writing with what a person has to mend.
func explained(err error) error {
	if DiskFull(err) {
		return fmt.Errorf("the disk is full: %w", err)
	}
	return err
}

// roomFile reserves disk space while a trial runs, so that trial.json and verdicts.json can be
// written at its end even if the disk has filled up.
const (
	roomFile = ".room"
	roomSize = 128 << 10
)

// keepRoom reserves the space in dir. If the disk has not that much, it leaves no file.
func keepRoom(dir string) error {
	path := filepath.Join(dir, roomFile)
	err := os.WriteFile(path, make([]byte, roomSize), 0o644)
	if err != nil {
		return explained(errors.Join(err, dropRoom(dir)))
	}
	return nil
}

// CheckRoom fails if the disk of dir has not the space that a trial reserves.
func CheckRoom(dir string) error {
	if err := keepRoom(dir); err != nil {
		return err
	}
	return dropRoom(dir)
}

// dropRoom gives the reserved space back.
func dropRoom(dir string) error {
	err := os.Remove(filepath.Join(dir, roomFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
