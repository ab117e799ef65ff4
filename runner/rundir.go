package runner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// runDir is a run directory that this process has just made and holds.
type runDir struct {
	path string
	held *os.File
	made []string // itself and directories above it that are new, innermost first
}

func makeRunDir(path string) (*runDir, error) {
	d := &runDir{path: path}
	for dir := filepath.Clean(path); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		d.made = append(d.made, dir)
	}
	err := os.MkdirAll(path, 0o755)
	if err == nil {
		d.held, err = Hold(path)
	}
	if err != nil {
		return nil, errors.Join(err, d.removeMade())
	}
	return d, nil
}

// abandon removes the directory of a run that began no trial. What somebody else
// put there stays.
func (d *runDir) abandon() error {
	err := os.Remove(filepath.Join(d.path, RunFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, d.removeMade())
}

func (d *runDir) removeMade() error {
	for _, dir := range d.made {
		if os.Remove(dir) != nil {
			break // others have theirs in it
		}
	}
	return nil
}
