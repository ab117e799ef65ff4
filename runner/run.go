package runner

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/waza-isolate/waza/runner/evidence"
	"github.com/waza-isolate/waza/runner/redact"
)

// Phase is where a trial is in its life.
type Phase string

const (
	PhaseStart   Phase = "starting"
	PhaseProbe   Phase = "probing servers"
	PhaseAgent   Phase = "agent at work"
	PhaseCollect Phase = "collecting"
	PhaseDone    Phase = "done"
)

// Update is a step in a trial's life. Result is set with PhaseDone.
type Update struct {
	Task   string
	Number int
	Phase  Phase
	Result *Result
}

// Result is a trial that has ended and was graded.
type Result struct {
	Dir      evidence.Dir
	Trial    evidence.Trial
	Verdicts evidence.Verdicts
}

// Options is how trials are run. Dir, Workers, Secrets and Progress are required.
type Options struct {
	Dir      string // run directory
	Workers  int    // trials at once, at least 1
	FailFast bool   // start no further trial once one did not pass
	Secrets  *redact.Set
	Progress func(Update) // called from several goroutines

	// Weak names the attacks that get out of sandboxes, which the run is to bear.
	Weak []string

	// ServerLog gets a server's stderr as it comes; nil for none.
	ServerLog func(t *Trial, server string) io.Writer
	// Hold is called with a trial's sandbox once its evidence is complete, and
	// keeps it standing until it returns; nil for none.
	Hold func(ctx context.Context, t *Trial, s Sandbox)
}

// TrialDir is where a trial's evidence lies in a run directory.
func TrialDir(run, task string, number int) evidence.Dir {
	return evidence.Dir(filepath.Join(run, "trials", task, strconv.Itoa(number)))
}

type run struct {
	backend Backend
	o       Options
	shared  *sharedServers
}

// Run runs trials, at most Workers at once, and grades each. When ctx ends, no
// further trial is started, those under way are stopped and taken down, and the
// results of those that had ended are returned. The error is only ever ours.
func Run(ctx context.Context, backend Backend, trials []*Trial, o Options) ([]Result, error) {
	if o.Workers < 1 || o.Dir == "" || o.Secrets == nil || o.Progress == nil {
		return nil, errors.New("runner: incomplete options")
	}
	r := &run{backend: backend, o: o}
	r.shared = newSharedServers(r)
	starting, stop := context.WithCancel(ctx)
	defer stop()

	results := make([]*Result, len(trials))
	errs := make([]error, len(trials))
	queue := make(chan int, len(trials))
	for i := range trials {
		queue <- i
	}
	close(queue)
	var workers sync.WaitGroup
	for range min(o.Workers, len(trials)) {
		workers.Go(func() {
			for i := range queue {
				if starting.Err() != nil {
					return
				}
				results[i], errs[i] = r.one(ctx, trials[i])
				if o.FailFast && results[i] != nil && results[i].Verdicts.Class != evidence.ClassPass {
					stop()
				}
			}
		})
	}
	workers.Wait()

	var done []Result
	for _, result := range results {
		if result != nil {
			done = append(done, *result)
		}
	}
	return done, errors.Join(append(errs, r.shared.close(ctx))...)
}

// one runs and grades one trial. A trial that was interrupted has no result.
func (r *run) one(ctx context.Context, t *Trial) (*Result, error) {
	dir := TrialDir(r.o.Dir, t.Task, t.Number)
	if ended, err := r.trial(ctx, t, dir); err != nil || !ended {
		return nil, err
	}
	if err := grade(dir); err != nil {
		return nil, err
	}
	result := &Result{Dir: dir}
	var err error
	if result.Trial, err = dir.Trial(); err != nil {
		return nil, err
	}
	if result.Verdicts, err = dir.Verdicts(); err != nil {
		return nil, err
	}
	r.o.Progress(Update{Task: t.Task, Number: t.Number, Phase: PhaseDone, Result: result})
	return result, nil
}
