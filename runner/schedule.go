package runner

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/runner/trial"
	"github.com/waza-isolate/waza/sandbox"
)

// Result is a trial that has ended and was graded.
type Result struct {
	Dir      evidence.Dir
	Trial    evidence.Trial
	Verdicts evidence.Verdicts
	// Earlier are the attempts before it, which were made again.
	Earlier []evidence.Trial
}

// Options are how [RunTrials] runs trials. Dir, Workers, Secrets and Progress are required.
type Options struct {
	Dir      string // run directory
	Workers  int    // trials at once, at least 1
	FailFast bool   // start no further trial once one did not pass
	// InfraRetries is how often a trial that ended as infra is run again.
	InfraRetries int
	// MaxAttempts is how often a trial is tried until its graders do not fail it; 0 is once.
	MaxAttempts int
	Secrets     *redact.Set
	Progress    func(Update) // called from several goroutines, which wait for it
	// Warn gets what failed and harms no trial; nil for nobody.
	Warn func(error)

	// Hooks are those of the run, and Start is where hooks on the host start; empty for here.
	Hooks plan.Hooks
	Start string

	// Weak names the attacks that get out of sandboxes, which the run is to bear.
	Weak []string

	// ServerLog gets a server's stderr as it comes; nil for none.
	ServerLog func(t *plan.Trial, server string) io.Writer
	// Connect finds the judge that a trial's graders ask; required where they do.
	Connect func(evidence.Judge) (trial.Judge, error)
	// Against is the directory of the same run without skills; empty for none.
	Against string
	// Snapshots takes what trials leave as snapshots; nil leaves those as they are.
	Snapshots *Snapshots
	// Hold is called with a trial's sandbox once its evidence is complete, and
	// keeps it standing until it returns; nil for none.
	Hold func(ctx context.Context, t *plan.Trial, s sandbox.Sandbox)
	// Free tells how many bytes are free on the disk of Dir; nil asks the disk.
	Free func() (int64, bool)
	// Wall is the machine's clock, which is asked once a trial; nil for time.Now.
	Wall func() time.Time
}

func (o Options) wall() time.Time {
	if o.Wall == nil {
		return time.Now()
	}
	return o.Wall()
}

const trialsDir = "trials"

// TrialDir is where a trial's evidence lies in a run directory.
func TrialDir(run, task string, number int) evidence.Dir {
	return evidence.Dir(filepath.Join(run, trialsDir, task, strconv.Itoa(number)))
}

type run struct {
	backend trial.Backend
	o       Options
	shared  *trial.SharedServers
	backs   reconnection
	budget  *budget

	progress *progressLog
}

// RunTrials runs trials, at most Workers at once, and grades each. When ctx ends, no
// further trial is started, those under way are stopped and taken down, and the
// results of those that had ended are returned. So it is when the backend goes away
// and does not come back. The error is only ever ours: with [ErrNoRoom] no trial was begun.
func RunTrials(ctx context.Context, backend trial.Backend, trials []*plan.Trial, o Options) ([]Result, error) {
	if o.Workers < 1 || o.Dir == "" || o.Secrets == nil || o.Progress == nil || o.InfraRetries < 0 {
		return nil, errors.New("runner: incomplete options")
	}
	if o.Connect == nil && slices.ContainsFunc(trials, func(t *plan.Trial) bool { return t.Judge != nil }) {
		return nil, errors.New("runner: no judge to connect to")
	}
	if o.Free == nil {
		o.Free = func() (int64, bool) { return freeBelow(o.Dir) }
	}
	budget, err := newBudget(o.Free, trials, o.Workers)
	if err != nil {
		return nil, err
	}
	r := &run{backend: backend, o: o, backs: reconnection{turn: make(chan struct{}, 1)}, budget: budget}
	r.shared = trial.NewSharedServers(backend)
	r.progress = openProgress(o)
	defer r.progress.close()
	if err := r.runHooks(ctx, o.Hooks.Before); err != nil {
		return nil, err
	}
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
				if starting.Err() != nil || r.backs.gone() != nil {
					return
				}
				results[i], errs[i] = r.one(ctx, trials[i])
				if o.FailFast && !trials[i].Trigger && results[i] != nil && results[i].Verdicts.Class != evidence.ClassPass {
					stop()
				}
			}
		})
	}
	workers.Wait()
	if ctx.Err() == nil {
		if err := r.runHooks(ctx, o.Hooks.After); err != nil && o.Warn != nil {
			o.Warn(err)
		}
	}

	var done []Result
	for _, result := range results {
		if result != nil {
			done = append(done, *result)
		}
	}
	return done, errors.Join(append(errs, r.backs.gone(), r.shared.Close(ctx))...)
}
