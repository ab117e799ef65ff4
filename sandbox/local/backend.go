// Package local is the backend without isolation: agent and servers are processes of this
// machine in a temporary directory.
//
// It isolates nothing. It removes the processes and directories of a trial when that ends, and
// reports which guarantees are missing.
package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox"
)

// Options configures how a run uses this machine.
type Options struct {
	Run string // unique id of the run
	// Resume means that an interrupted run with this id is resumed. Open fails with
	// sandbox.ErrAlive if it is still running.
	Resume bool
	// Env is the environment that programs inherit; nil for that of this process.
	Env []string
	// Without are variables of it that programs do not inherit.
	Without []string
	// Executable is the executable of built-in agents. Defaults to this executable.
	Executable string
	// Temp is the parent of the runs' directories; empty for the system's.
	Temp string
}

// Backend runs the programs of sandboxes as processes of this machine. It implements sandbox.Backend.
type Backend struct {
	executable string
	env        []string
	dir        *runDir
	launcher   *launcher
	ports      ports
}

// Open creates the run's directory, which contains all files of the run.
func Open(o Options) (*Backend, error) {
	if o.Executable == "" {
		var err error
		if o.Executable, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	if o.Resume {
		if err := Sweep(o.Temp, o.Run); err != nil {
			return nil, err
		}
	}
	dir, err := makeRunDir(baseDir(o.Temp), o.Run)
	if o.Resume && errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w: another process has just resumed it", sandbox.ErrAlive)
	}
	if err != nil {
		return nil, err
	}
	if o.Env == nil {
		o.Env = os.Environ()
	}
	return &Backend{executable: o.Executable, env: without(o.Env, o.Without), dir: dir, launcher: newLauncher()}, nil
}

// Close releases what belongs to the whole run. All sandboxes must be closed.
func (b *Backend) Close(context.Context) error {
	b.launcher.close()
	return b.dir.remove()
}

// Prepare implements sandbox.Backend. It checks that all known programs exist. The error names all
// missing ones.
func (b *Backend) Prepare(_ context.Context, all []*sandbox.Spec, _ func(string)) error {
	var errs []error
	said := map[string]bool{}
	for _, s := range all {
		for _, c := range s.Containers {
			if err := b.check(c); err != nil && !said[err.Error()] {
				said[err.Error()] = true
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// check returns an error if this machine does not have the program of a container.
func (b *Backend) check(c sandbox.ContainerSpec) error {
	p := c.Program
	if len(p.Args) == 0 {
		return nil
	}
	if p.Dir != "" {
		if info, err := os.Stat(p.Dir); err != nil || !info.IsDir() {
			return fmt.Errorf("%s: its working directory %s is not a directory of this machine", c.Who, p.Dir)
		}
	}
	_, err := lookPath(p.Args[0], slices.Concat(b.env, p.Env), p.Dir)
	switch {
	case err != nil && c.Product != "":
		return fmt.Errorf("%s is not installed here: %w; with --isolate it needs no installation", c.Product, err)
	case err != nil:
		return fmt.Errorf("%s: %w", c.Who, err)
	}
	return nil
}

// Describe returns properties of the machine for run.json.
func (b *Backend) Describe() map[string]string {
	return map[string]string{"engine": "process", "os": runtime.GOOS, "arch": runtime.GOARCH}
}

// Images returns nil.
func (b *Backend) Images() evidence.ImageRecords { return nil }

// Open implements sandbox.Opener.
func (b *Backend) Open(ctx context.Context, t *sandbox.Spec, _ func(evidence.Event)) (sandbox.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	s, err := b.newSandbox(t)
	if err != nil {
		return nil, err
	}
	return s, nil
}
