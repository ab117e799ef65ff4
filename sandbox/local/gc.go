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

// Garbage is what a gc found of dead runs and removed.
type Garbage struct {
	Runs      []string // ids of the dead runs
	Live      []string // ids of live runs, which were left alone
	Processes int      // process groups, and programs that had left theirs
}

// GC ends the processes of runs whose runner is dead, and removes their
// directories. It looks where Open with the same Temp makes them.
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

// Sweep ends the processes of one dead run and removes its directory. It fails with
// sandbox.ErrAlive where the run is not dead.
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
		return nil // somebody else's gc was quicker
	case err != nil:
		return err
	}
	_, err = c.clean(ctx)
	return err
}

// judge tells dead runs from live ones, and takes hold of those.
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
		case err != nil:
			return g, dead, err
		default:
			g.Runs = append(g.Runs, entry.Name())
			dead = append(dead, &claim{base: base, dir: dir, lock: held})
		}
	}
	return g, dead, nil
}

// clean ends what is left of a dead run: process groups first, asked and then
// made to, then programs that had left theirs.
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

// groups are the run's process groups whose leader lives. Numbers of another boot,
// or that have become another's, are left alone.
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

// await waits until no group is left, and says whether that is so.
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
