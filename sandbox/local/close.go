package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox/process"
)

const (
	// stopGrace is what programs get between SIGTERM and SIGKILL.
	stopGrace = 2 * time.Second
	// killGrace is how long after SIGKILL they may take to be gone.
	killGrace = 10 * time.Second
)

// Close implements sandbox.Sandbox.
func (s *trialSandbox) Close(ctx context.Context) error {
	s.closeOnce.Do(func() { s.closeErr = s.close(ctx) })
	return s.closeErr
}

func (s *trialSandbox) close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	programs, listeners := s.programs, s.listeners
	s.mu.Unlock()
	for _, ln := range listeners {
		_ = ln.Close()
	}
	for _, p := range programs {
		p.lose()
		_ = p.Signal(process.Terminate)
	}
	awaitAll(ctx, programs, stopGrace)
	for _, p := range programs {
		_ = p.Signal(process.Kill)
	}
	awaitAll(ctx, programs, killGrace)
	killMarked(s.mark(""))
	var errs []error
	for _, p := range programs {
		p.cut()
		if !isClosed(p.ended) {
			errs = append(errs, fmt.Errorf("process %d does not end after SIGKILL", p.proc.Pid))
		}
	}
	s.backend.ports.leave(s)
	close(s.gone)
	return errors.Join(append(errs, s.removeDir())...)
}

// awaitAll waits until programs have ended, for a while.
func awaitAll(ctx context.Context, programs []*program, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for _, p := range programs {
		select {
		case <-p.ended:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// removeDir removes the sandbox's directory.
func (s *trialSandbox) removeDir() error {
	return errors.Join(s.root.Close(), removeTree(s.dir))
}

// removeTree removes a directory that programs have written to: they may have
// taken rights away. Links in it are never followed.
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

// unlock gives the owner all rights to the directories under name.
func unlock(root *os.Root, name string) {
	_ = root.Chmod(name, 0o700)
	entries, _ := fs.ReadDir(root.FS(), name)
	for _, entry := range entries {
		if entry.IsDir() {
			unlock(root, name+"/"+entry.Name())
		}
	}
}

// Guarantees implements sandbox.Sandbox.
func (s *trialSandbox) Guarantees() evidence.Guarantees {
	g := evidence.Guarantees{
		Backend:  "process",
		Network:  plan.NetworkNone,
		Enforced: []string{"the process group of every program ends with its trial, or with the run where that is how long a server lives"},
		Missing: []string{
			"nothing was isolated: agent and servers ran as processes of the user, with the user's files, network, environment and credentials",
			"any program of this machine could reach the servers on loopback",
			straysMissing,
		},
	}
	if s.trial.Models != nil {
		g.Missing = append(g.Missing, "any program of this machine could ask the agent's models on loopback, with the runner's keys")
	}
	for _, name := range s.trial.NotEnforced {
		g.Missing = append(g.Missing, name+" had no effect")
	}
	return g
}
