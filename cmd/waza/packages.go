package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/wholefile"
	"github.com/waza-isolate/waza/runner/plan"
)

// likelyPlatform is what an engine on this machine runs, as long as none was asked.
func likelyPlatform() string { return "linux/" + runtime.GOARCH }

// keptInLock is what becomes of what was resolved.
const keptInLock = "kept in " + images.LockName

func lockPath(e *eval.Eval) string { return filepath.Join(e.Dir(), images.LockName) }

// readLock reads the lock beside an eval. One that is missing is empty; one that is
// wrong is a usage error.
func readLock(e *eval.Eval) (*images.Lock, error) {
	path := lockPath(e)
	data, err := wholefile.Read(path, images.MaxLockBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &images.Lock{}, nil
	case err != nil:
		return nil, usage("the lock: %w", err)
	}
	lock, err := images.ParseLock(data)
	if err != nil {
		return nil, usage("%s %w; correct it, or remove it and run: waza lock %s", path, err, e.Path)
	}
	return lock, nil
}

func writeLock(e *eval.Eval, lock *images.Lock) error {
	if err := evidence.WriteFile(lockPath(e), lock.Bytes()); err != nil {
		return fmt.Errorf("%s cannot be written, so the next run could install something else: %w", lockPath(e), err)
	}
	return nil
}

// installer is a backend that installs packages into images of their own.
type installer interface {
	Platform() string
	Resolve(ctx context.Context, i images.Image, lock *images.Lock) (images.Entry, error)
}

// resolve is what the registry has today of those packages that lock lacks. What becomes
// of each is said in the words of then.
func (s *state) resolve(ctx context.Context, backend installer, packages []images.Image, lock *images.Lock, then string) ([]images.Entry, error) {
	var entries []images.Entry
	for _, p := range packages {
		if p.Entry != nil {
			continue
		}
		fmt.Fprintf(s.stderr, "resolving %s\n", p)
		entry, err := backend.Resolve(ctx, p, lock)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
		fmt.Fprintf(s.stderr, "resolved %s to %s, %s\n", p, entry.Version, then)
	}
	return entries, nil
}

// lockPackages resolves what the lock lacks, keeps it there, and plans again. What
// another run kept there meanwhile stays.
func (j *job) lockPackages(ctx context.Context, backend installer) error {
	packages, err := plan.Packages(j.eval, j.tasks, j.lock, backend.Platform())
	if err != nil || len(packages) == 0 {
		return err
	}
	entries, err := j.resolve(ctx, backend, packages, j.lock, keptInLock)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		current, err := readLock(j.eval)
		if err != nil {
			return err
		}
		j.lock = current.Fill(entries)
		if err := writeLock(j.eval, j.lock); err != nil {
			return err
		}
	}
	return j.plan(backend.Platform())
}
