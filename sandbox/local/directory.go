package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/tree"
	"github.com/waza-isolate/waza/sandbox"
)

// baseDir returns the directory of this user's runs.
func baseDir(temp string) string {
	if temp == "" {
		temp = os.TempDir()
	}
	return filepath.Join(temp, "waza-"+strconv.Itoa(os.Geteuid()))
}

// ownBase creates the directory of all runs, or checks that only this user can access it, since
// others may have created it in a directory that everybody can write to. It retries if the last
// run removes the directory meanwhile.
func ownBase(base string) (string, error) {
	for {
		if err := os.Mkdir(base, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("%w; set TMPDIR to a directory that is there and can be written to", err)
		}
		info, err := os.Lstat(base)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if !info.IsDir() || !files.IsPrivate(info) {
			return "", fmt.Errorf("%s is not a directory of this user's alone; remove it, or set TMPDIR to another place", base)
		}
		found, err := filepath.EvalSymlinks(base)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		return filepath.Abs(found)
	}
}

// runDir is the directory of a run, which contains those of its sandboxes. The runner locks it. The
// lock ends with the runner's process, so the run is dead if another process can lock it.
type runDir struct {
	base string
	path string
	lock *os.File
}

// makeRunDir creates and locks the directory of a run. It retries if a concurrent gc or the last
// run removes a directory before it is locked.
func makeRunDir(base, run string) (*runDir, error) {
	for {
		found, err := ownBase(base)
		if err != nil {
			return nil, err
		}
		d := &runDir{base: found, path: filepath.Join(found, run)}
		if err = os.Mkdir(d.path, 0o700); err == nil {
			d.lock, err = lockDir(d.path, true)
			if err == nil {
				return d, nil
			}
			_ = os.Remove(d.path)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

// findRunDir locks the directory of a run that may be dead. The error is files.ErrLocked if the run
// is alive, and also if that is not known.
func findRunDir(base, run string) (_ *runDir, err error) {
	d := &runDir{base: base, path: filepath.Join(base, run)}
	d.lock, err = lockDir(d.path, false)
	return d, err
}

// lockDir locks a directory. Child processes do not inherit the lock. The error is fs.ErrNotExist
// if the directory was removed before it was locked. Where directories cannot be locked, lockDir
// returns the directory if wait is set, and files.ErrLocked otherwise.
func lockDir(path string, wait bool) (*os.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err = files.Lock(file, wait); errors.Is(err, files.ErrNoLocks) {
		if err = nil; !wait {
			err = files.ErrLocked
		}
	}
	if err == nil {
		var ours, there os.FileInfo
		if ours, err = file.Stat(); err == nil {
			there, err = os.Lstat(path)
		}
		if err == nil && !os.SameFile(ours, there) {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		return nil, errors.Join(&os.PathError{Op: "lock", Path: path, Err: err}, file.Close())
	}
	return file, nil
}

// makeDir creates a directory with a unique name.
func (d *runDir) makeDir(name string) (string, *os.Root, error) {
	dir := filepath.Join(d.path, name)
	for n := 2; ; n++ {
		err := os.Mkdir(dir, 0o700)
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrExist) || n > 1000 {
			return "", nil, err
		}
		dir = filepath.Join(d.path, name+"-again-"+strconv.Itoa(n))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, root, nil
}

// remove removes the directory and then its lock. The last run also removes the directory of all
// runs.
func (d *runDir) remove() error {
	err := errors.Join(removeTree(d.path), d.lock.Close())
	_ = os.Remove(d.base) // fails while other runs are in it
	return err
}

// removals is how often the removal of a directory is tried, since programs that left their trial
// may still write there.
const removals = 20

// removeTree removes a directory with everything that programs left in it, including directories
// closed to their owner, immutable files and mounts. Links are not followed.
func removeTree(dir string) error {
	err := os.RemoveAll(dir)
	for range removals {
		if err == nil {
			return nil
		}
		reopen(dir)
		unmountBelow(dir)
		if root, failed := os.OpenRoot(dir); failed == nil {
			unlock(root)
			_ = root.Close()
		}
		err = os.RemoveAll(dir)
	}
	return err
}

// reopen restores the owner's rights on a directory, unless it was replaced.
func reopen(dir string) {
	if info, err := os.Lstat(dir); err == nil && info.IsDir() && info.Mode()&0o700 != 0o700 {
		_ = os.Chmod(dir, 0o700)
	}
}

// unlock restores the owner's rights on everything in a directory.
func unlock(dir *os.Root) {
	mayChange(dir, ".")
	names, _ := tree.Names(dir)
	for _, name := range names {
		info, err := dir.Lstat(name)
		switch {
		case err != nil:
		case info.Mode().IsRegular():
			mayChange(dir, name)
		case info.IsDir():
			mayChange(dir, name)
			_ = dir.Chmod(name, 0o700)
			if below, err := dir.OpenRoot(name); err == nil {
				unlock(below)
				_ = below.Close()
			}
		}
	}
}

// reopen restores the owner's rights on the directories of the run and on one of its sandboxes,
// which programs may have closed.
func (d *runDir) reopen(dir string) {
	for _, at := range []string{d.base, d.path, dir} {
		reopen(at)
	}
}

// Garbage is what gc removed of dead runs.
type Garbage struct {
	Runs      []string `json:"runs"`      // ids of dead runs
	Live      []string `json:"live"`      // ids of live runs, which were not touched
	Processes int      `json:"processes"` // that had outlived their run
}

// GC kills the processes of dead runs and removes their directories below temp, see [Options].
func GC(temp string) (Garbage, error) {
	var g Garbage
	base := baseDir(temp)
	if _, err := os.Lstat(base); errors.Is(err, fs.ErrNotExist) {
		return g, nil
	}
	base, err := ownBase(base)
	if err != nil {
		return g, err
	}
	entries, err := os.ReadDir(base)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // the last run may remove it meanwhile
		return g, err
	}
	var errs []error
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		d, err := findRunDir(base, entry.Name())
		switch {
		case errors.Is(err, files.ErrLocked):
			g.Live = append(g.Live, entry.Name())
		case errors.Is(err, fs.ErrNotExist): // its run or another gc has removed it
		case err != nil:
			errs = append(errs, err)
		default:
			g.Runs = append(g.Runs, entry.Name())
			ended, err := d.clean()
			g.Processes += ended
			errs = append(errs, err)
		}
	}
	return g, errors.Join(errs...)
}

// Sweep kills the processes of one dead run and removes its directory. It returns
// sandbox.ErrAlive if the run is not dead.
func Sweep(temp, run string) error {
	base := baseDir(temp)
	if _, err := os.Lstat(filepath.Join(base, run)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	base, err := ownBase(base)
	if err != nil {
		return err
	}
	d, err := findRunDir(base, run)
	switch {
	case errors.Is(err, files.ErrLocked):
		return fmt.Errorf("%w: it holds %s", sandbox.ErrAlive, d.path)
	case errors.Is(err, fs.ErrNotExist):
		return nil // removed by a concurrent gc
	case err != nil:
		return err
	}
	_, err = d.clean()
	return err
}

// clean kills the processes that outlived a dead run, if they can be found by their mark, and
// removes its directory.
func (d *runDir) clean() (ended int, err error) {
	ended = killMarked(d.path + "/")
	return ended, d.remove()
}
