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
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// Options configures how a run uses this machine.
type Options struct {
	Run string // unique id of the run
	// Resume means that an interrupted run with this id is resumed. Open fails with
	// sandbox.ErrAlive if it is still running.
	Resume bool
	// Without are variables of this process's environment that programs do not inherit.
	Without []string
	// Executable is the executable of built-in agents. Defaults to this executable.
	Executable string
	// Temp is the parent of the runs' directories; empty for the system's.
	Temp string
}

// Backend runs trials as processes of this machine. It implements runner.Backend.
type Backend struct {
	run        string
	executable string
	without    []string
	claim      *claim
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
		if err := Sweep(context.Background(), o.Temp, o.Run); err != nil {
			return nil, err
		}
	}
	c, err := claimRun(baseDir(o.Temp), o.Run)
	if o.Resume && errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w: another process has just resumed it", sandbox.ErrAlive)
	}
	if err != nil {
		return nil, err
	}
	return &Backend{run: o.Run, executable: o.Executable, without: o.Without, claim: c, launcher: newLauncher()}, nil
}

// Close releases what belongs to the whole run. All sandboxes must be closed.
func (b *Backend) Close(context.Context) error {
	b.launcher.close()
	return b.claim.release()
}

// Prepare checks that all programs in the trials' plans exist, before any trial starts. The
// error names all missing ones.
func (b *Backend) Prepare(_ context.Context, trials []*plan.Trial, _ func(string)) error {
	var errs []error
	said := map[string]bool{}
	refuse := func(err error) {
		if err != nil && !said[err.Error()] {
			said[err.Error()] = true
			errs = append(errs, err)
		}
	}
	for _, t := range trials {
		refuse(checkAgent(t.Agent))
		for _, s := range t.Servers {
			refuse(checkServer(s))
		}
		for _, g := range t.GraderContainers {
			refuse(checkGrader(g))
		}
	}
	return errors.Join(errs...)
}

// checkAgent ignores a program that is named by a path, since that may be in the workspace.
func checkAgent(a plan.Agent) error {
	if len(a.Command) == 0 || isPath(a.Command[0]) {
		return nil
	}
	env := os.Environ()
	for key, value := range a.Env {
		env = append(env, key+"="+value)
	}
	_, err := lookPath(a.Command[0], env, "")
	switch {
	case err != nil && a.Adapted != nil:
		return fmt.Errorf("%s is not installed here: %w; with --isolate it needs no installation", a.Adapted.Title, err)
	case err != nil:
		return fmt.Errorf("agent: %w", err)
	}
	return nil
}

func checkGrader(g plan.GraderContainer) error {
	if isPath(g.Command[0]) {
		return nil
	}
	if _, err := lookPath(g.Command[0], os.Environ(), ""); err != nil {
		return fmt.Errorf("grader %q: %w", g.Grader, err)
	}
	return nil
}

func checkServer(s plan.Server) error {
	command, dir, env := s.Program()
	if command == "" {
		return nil
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("server %q: its working directory %s is not a directory of this machine", s.Name, dir)
	}
	if _, err := lookPath(command, slices.Concat(os.Environ(), env), dir); err != nil {
		return fmt.Errorf("server %q: %w", s.Name, err)
	}
	return nil
}

// Describe returns properties of the machine for run.json.
func (b *Backend) Describe() map[string]string {
	return map[string]string{"engine": "process", "os": runtime.GOOS, "arch": runtime.GOARCH}
}

// Images returns nil.
func (b *Backend) Images() evidence.ImageRecords { return nil }

// Open opens the sandbox of a trial.
func (b *Backend) Open(ctx context.Context, t *plan.Trial, _ func(evidence.Event)) (sandbox.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	s, err := b.newSandbox(t)
	if err != nil {
		return nil, err
	}
	return s, nil
}
