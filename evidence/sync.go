package evidence

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Sync has the system keep all that is in a trial's directory, and that the
// directory is there, also through a loss of power. parents is how many of the
// directories above it may be new.
func (d Dir) Sync(parents int) error {
	err := filepath.WalkDir(string(d), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() && !entry.Type().IsRegular() {
			return err
		}
		return syncPath(path)
	})
	above := string(d)
	for range parents {
		above = filepath.Dir(above)
		err = errors.Join(err, syncPath(above))
	}
	return err
}

// RemoveHalfWritten removes what a crash in the midst of [WriteFile] left in dir.
func RemoveHalfWritten(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if half, _ := filepath.Match(halfWritten("*"), e.Name()); half && e.Type().IsRegular() {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// halfWritten is the pattern of names that a file has until it is whole.
func halfWritten(name string) string { return "." + name + "-*" }

// syncPath syncs a directory, so that names in it are kept, or a file.
func syncPath(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
