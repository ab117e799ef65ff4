package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// A run's directory is BASE/RUN, with
//
//	lock             held by the runner: one that can be taken is a dead run's
//	processes/PID    a process group of the run, as record
//	TASK-N/          the directory of a sandbox
//
// BASE/lock is held for the moment in which a run is made or judged dead.
const (
	lockFile     = "lock"
	processesDir = "processes"
)

// baseDir is where the runs of this user are.
func baseDir(temp string) string {
	if temp == "" {
		temp = os.TempDir()
	}
	return filepath.Join(temp, "waza-"+strconv.Itoa(os.Geteuid()))
}

// record says which process a number meant.
type record struct {
	Boot  string `json:"boot"`
	Start string `json:"start"`
}

// claim is a run's hold on its directory.
type claim struct {
	base string
	dir  string
	lock *os.File
}

// claimRun makes the directory of a run.
func claimRun(base, run string) (_ *claim, err error) {
	base, all, err := lockBase(base)
	if err != nil {
		return nil, err
	}
	defer func() { _ = all.Close() }()
	c := &claim{base: base, dir: filepath.Join(base, run)}
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		return nil, err
	}
	if c.lock, err = lock(filepath.Join(c.dir, lockFile), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		err = os.Mkdir(filepath.Join(c.dir, processesDir), 0o700)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(c.dir))
	}
	return c, nil
}

// lockBase makes the directory of all runs where it is not there, and locks it.
// The last run removes it, perhaps while we wait for the lock.
func lockBase(base string) (string, *os.File, error) {
	for {
		found, err := ownBase(base)
		if err != nil {
			return "", nil, err
		}
		path := filepath.Join(found, lockFile)
		file, err := lock(path, unix.LOCK_EX)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", nil, err
		}
		ours, err := file.Stat()
		if there, errThere := os.Stat(path); err == nil && errThere == nil && os.SameFile(ours, there) {
			return found, file, nil
		}
		_ = file.Close()
	}
}

// ownBase makes the directory of all runs, or finds that it is the user's alone:
// in a directory that everybody can write to, anybody may have made it.
func ownBase(base string) (string, error) {
	if err := os.Mkdir(base, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(base)
	if err != nil {
		return "", err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(stat.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s is not a directory of this user's alone; remove it, or set TMPDIR to another place", base)
	}
	if base, err = filepath.EvalSymlinks(base); err != nil {
		return "", err
	}
	return filepath.Abs(base)
}

// lock opens and locks a file. The lock ends with the file, and so with its
// process; programs that are started do not get it.
func lock(path string, how int) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(file.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(&os.PathError{Op: "lock", Path: path, Err: err}, file.Close())
	}
	return file, nil
}

// makeDir makes a directory of a name that nobody else has.
func (c *claim) makeDir(name string) (string, *os.Root, error) {
	dir := filepath.Join(c.dir, name)
	for n := 2; ; n++ {
		err := os.Mkdir(dir, 0o700)
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrExist) || n > 1000 {
			return "", nil, err
		}
		dir = filepath.Join(c.dir, name+"-again-"+strconv.Itoa(n))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, root, nil
}

// remember writes down a process group, for gc to end where we cannot; forget is
// called when it has ended.
func (c *claim) remember(pid int) (forget func(), err error) {
	data, err := json.Marshal(record{Boot: bootID(), Start: processStart(pid)})
	if err != nil {
		return func() {}, err
	}
	path := filepath.Join(c.dir, processesDir, strconv.Itoa(pid))
	return func() { _ = os.Remove(path) }, os.WriteFile(path, data, 0o600)
}

// release removes the directory, and the lock with it. The last run leaves
// nothing.
func (c *claim) release() error {
	err := errors.Join(removeTree(c.dir), c.lock.Close())
	base, all, lockErr := lockBase(c.base)
	if lockErr != nil {
		return errors.Join(err, lockErr)
	}
	if entries, readErr := os.ReadDir(base); readErr == nil && len(entries) == 1 {
		err = errors.Join(err, os.Remove(filepath.Join(base, lockFile)), os.Remove(base))
	}
	return errors.Join(err, all.Close())
}
