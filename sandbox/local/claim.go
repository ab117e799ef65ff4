package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/sandbox"
)

// The directory BASE/RUN of a run contains:
//
//	lock             locked by the runner; if it can be locked, the run is dead
//	processes/PID    a process group of the run, with a record
//	TASK-N/          the directory of a sandbox
//
// BASE/lock is locked while a run is created or found dead.
const (
	lockFile     = "lock"
	processesDir = "processes"
)

// baseDir returns the directory of this user's runs.
func baseDir(temp string) string {
	if temp == "" {
		temp = os.TempDir()
	}
	return filepath.Join(temp, "waza-"+strconv.Itoa(os.Geteuid()))
}

// record identifies the process that had a pid.
type record struct {
	Boot  string `json:"boot"`
	Start string `json:"start"`
}

// claim is a run's directory and the lock on it.
type claim struct {
	base string
	dir  string
	lock *os.File
}

// claimRun creates the directory of a run.
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

// lockBase creates the directory of all runs if necessary, and locks it. It retries if the last
// run removes the directory meanwhile.
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

// ownBase creates the directory of all runs, or checks that only this user can access it, since
// others may have created it in a directory that everybody can write to.
func ownBase(base string) (string, error) {
	if err := os.Mkdir(base, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("%w; set TMPDIR to a directory that is there and can be written to", err)
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

// lock opens and locks a file. The lock ends when the file is closed or the process exits;
// child processes do not inherit it.
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

// makeDir creates a directory with a unique name.
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

// remember records a process group, so that gc can kill it. forget is called when it has ended.
func (c *claim) remember(pid int) (forget func(), err error) {
	data, err := json.Marshal(record{Boot: bootID(), Start: processStart(pid)})
	if err != nil {
		return func() {}, err
	}
	path := filepath.Join(c.dir, processesDir, strconv.Itoa(pid))
	return func() { _ = os.Remove(path) }, os.WriteFile(path, data, 0o600)
}

// release removes the directory with the lock. The last run also removes the directory of all
// runs.
func (c *claim) release() error {
	base, all, err := lockBase(c.base) // so that no gc finds a part of the directory
	if err != nil {
		return errors.Join(err, removeTree(c.dir), c.lock.Close())
	}
	err = errors.Join(removeTree(c.dir), c.lock.Close())
	if entries, readErr := os.ReadDir(base); readErr == nil && len(entries) == 1 {
		err = errors.Join(err, os.Remove(filepath.Join(base, lockFile)), os.Remove(base))
	}
	return errors.Join(err, all.Close())
}

// removeTree removes a directory, including subdirectories whose permissions programs have
// removed. Links are not followed.
func removeTree(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return os.RemoveAll(dir)
	}
	unlock(root, ".")
	return errors.Join(root.Close(), os.RemoveAll(dir))
}

// unlock restores the owner's permissions of the directories under name.
func unlock(root *os.Root, name string) {
	_ = root.Chmod(name, 0o700)
	entries, _ := fs.ReadDir(root.FS(), name)
	for _, entry := range entries {
		if entry.IsDir() {
			unlock(root, name+"/"+entry.Name())
		}
	}
}

// Garbage is what gc removed of dead runs.
type Garbage struct {
	Runs      []string // ids of dead runs
	Live      []string // ids of live runs, which were not touched
	Processes int      // process groups, and processes that had left theirs
}

// GC kills the processes of dead runs and removes their directories below temp, see [Options].
func GC(ctx context.Context, temp string) (Garbage, error) {
	base := baseDir(temp)
	if _, err := os.Lstat(base); errors.Is(err, fs.ErrNotExist) {
		return Garbage{}, nil
	}
	g, dead, err := judge(base)
	errs := []error{err}
	for _, c := range dead {
		n, err := c.clean(ctx)
		g.Processes += n
		errs = append(errs, err)
	}
	return g, errors.Join(errs...)
}

// Sweep kills the processes of one dead run and removes its directory. It returns
// sandbox.ErrAlive if the run is not dead.
func Sweep(ctx context.Context, temp, run string) error {
	base := baseDir(temp)
	if _, err := os.Lstat(filepath.Join(base, run)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	base, all, err := lockBase(base)
	if err != nil {
		return err
	}
	c := &claim{base: base, dir: filepath.Join(base, run)}
	c.lock, err = lock(filepath.Join(c.dir, lockFile), unix.LOCK_EX|unix.LOCK_NB)
	err = errors.Join(err, all.Close())
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return fmt.Errorf("%w: it holds %s", sandbox.ErrAlive, c.dir)
	case errors.Is(err, fs.ErrNotExist):
		return nil // removed by a concurrent gc
	case err != nil:
		return err
	}
	_, err = c.clean(ctx)
	return err
}

// judge separates dead runs from live ones, and locks the dead ones.
func judge(base string) (g Garbage, dead []*claim, err error) {
	base, all, err := lockBase(base)
	if err != nil {
		return g, nil, err
	}
	defer func() { _ = all.Close() }()
	entries, err := os.ReadDir(base)
	if err != nil {
		return g, nil, err
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		dir := filepath.Join(base, entry.Name())
		held, err := lock(filepath.Join(dir, lockFile), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EWOULDBLOCK):
			g.Live = append(g.Live, entry.Name())
		case errors.Is(err, fs.ErrNotExist): // removed by another gc
		case err != nil:
			return g, dead, err
		default:
			g.Runs = append(g.Runs, entry.Name())
			dead = append(dead, &claim{base: base, dir: dir, lock: held})
		}
	}
	return g, dead, nil
}

// clean kills what is left of a dead run: first process groups, with SIGTERM and then SIGKILL,
// and then processes that had left theirs.
func (c *claim) clean(ctx context.Context) (ended int, err error) {
	groups := c.groups()
	for _, pid := range groups {
		_ = syscall.Kill(-pid, syscall.SIGTERM)
	}
	ended = len(groups)
	if !c.await(ctx, stopGrace) {
		for _, pid := range c.groups() {
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		}
		c.await(ctx, killGrace)
	}
	ended += killMarked(c.dir + "/")
	if left := c.groups(); len(left) > 0 {
		return ended, errors.Join(errors.New("process "+strconv.Itoa(left[0])+" does not end after SIGKILL"), c.lock.Close())
	}
	return ended, c.release()
}

// groups returns the run's process groups whose leader is alive. Pids of another boot, or that
// were reused, are ignored.
func (c *claim) groups() (pids []int) {
	entries, _ := os.ReadDir(filepath.Join(c.dir, processesDir))
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid <= 1 {
			continue
		}
		data, err := os.ReadFile(filepath.Join(c.dir, processesDir, entry.Name()))
		var r record
		if err != nil || json.Unmarshal(data, &r) != nil || r.Start == "" || r.Boot != bootID() || r.Start != processStart(pid) {
			continue
		}
		pids = append(pids, pid)
	}
	return pids
}

// await waits until no group is left. It reports whether that happened in time.
func (c *claim) await(ctx context.Context, within time.Duration) bool {
	for deadline := time.Now().Add(within); ; {
		if len(c.groups()) == 0 {
			return true
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return false
		}
		time.Sleep(50 * time.Millisecond)
	}
}
