package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/runner/trial"
	"github.com/waza-isolate/waza/sandbox"
)

// Result is the result of a completed trial.
type Result struct {
	Dir      evidence.Dir
	Trial    evidence.Trial
	Verdicts evidence.Verdicts
	// Earlier are the previous attempts.
	Earlier []evidence.Trial
}

// Options configures [RunTrials]. Dir, Workers, Progress and the host's Secrets are required. Of
// the host only Say, Warn and the functions for trials are used.
type Options struct {
	Host     Host
	Dir      string // run directory
	Workers  int    // maximum number of concurrent trials, at least 1
	Prewarm  int    // maximum number of sandboxes opened in advance
	FailFast bool   // start no more trials after one that does not pass
	// InfraRetries is how often a trial with outcome infra is retried.
	InfraRetries int
	// MaxAttempts is how often a trial is tried until it passes; 0 means once.
	MaxAttempts int
	Progress    func(Update) // called from several goroutines, which wait for it

	// Hooks are the hooks of the run. Start is the directory in which hooks on the host start;
	// empty for the current one.
	Hooks plan.Hooks
	Start string

	// Weak are the attacks that may get out of sandboxes.
	Weak []string

	// Against is the directory of the baseline run without skills; may be empty.
	Against string
	// Snapshots takes snapshots from trials' files; may be nil.
	Snapshots *Snapshots
	// Wall returns the wall clock time. It is called once a trial; default time.Now.
	Wall func() time.Time
}

// withDefaults returns the options with defaults for those that are not required.
func (o Options) withDefaults() Options {
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.Host.Say == nil {
		o.Host.Say = func(string) {}
	}
	if o.Host.Warn == nil {
		o.Host.Warn = func(error) {}
	}
	return o
}

const trialsDir = "trials"

// TrialDir returns the directory of a trial's evidence in a run directory.
func TrialDir(run, task string, number int) evidence.Dir {
	return evidence.Dir(filepath.Join(run, trialsDir, task, strconv.Itoa(number)))
}

// scheduler hands the trials of a run to workers.
type scheduler struct {
	backend    sandbox.Opener
	pool       *pool // opens the trials' sandboxes
	o          Options
	shared     *trial.SharedServers
	connection reconnection
	said       sync.Map // what sayOnce has printed

	progress *progressWriter
}

// RunTrials runs trials, at most Workers at once, and grades each. When ctx is done, or the
// backend is lost, no further trial is started, and running trials are stopped. RunTrials returns
// the directories of completed trials, in order. The error is never that of a trial. RunTrials
// takes ownership of the plans: it sets elements of trials to nil when they have completed.
func RunTrials(ctx context.Context, backend sandbox.Opener, trials []*plan.Trial, o Options) ([]evidence.Dir, error) {
	o = o.withDefaults()
	s := &scheduler{backend: backend, o: o, connection: reconnection{turn: make(chan struct{}, 1)}}
	s.shared = trial.NewSharedServers(backend)
	s.progress = openProgress(o)
	defer s.progress.close()
	if err := s.runHooks(ctx, o.Hooks.Before); err != nil {
		return nil, err
	}
	done, failed := s.runWorkers(ctx, trials)
	if ctx.Err() == nil {
		if err := s.runHooks(ctx, o.Hooks.After); err != nil {
			o.Host.Warn(err)
		}
	}
	return done, errors.Join(failed, s.connection.gone(), s.shared.Close(ctx))
}

// runWorkers runs the trials on workers until no more may start, and returns the directories of
// completed trials in order.
func (s *scheduler) runWorkers(ctx context.Context, trials []*plan.Trial) ([]evidence.Dir, error) {
	starting, stop := context.WithCancel(ctx)
	defer stop()
	s.pool = newPool(starting, s.backend, s.o.Dir, trials, s.o.Prewarm)
	dirs := make([]evidence.Dir, len(trials)) // "" for trials that have not completed
	errs := make([]error, len(trials))
	queue := make(chan int, len(trials))
	for i := range trials {
		queue <- i
	}
	close(queue)
	var workers sync.WaitGroup
	for range min(s.o.Workers, len(trials)) {
		workers.Go(func() {
			for i := range queue {
				if starting.Err() != nil || s.connection.gone() != nil {
					return
				}
				t := trials[i]
				s.pool.started(t)
				result, err := s.runTrial(ctx, t)
				errs[i], trials[i] = err, nil
				if result == nil {
					continue
				}
				if s.o.FailFast && !t.Trigger && result.Verdicts.Class != evidence.ClassPass {
					stop()
				}
				dirs[i] = result.Dir
			}
		})
	}
	workers.Wait()
	errs = append(errs, s.pool.close())
	return slices.DeleteFunc(dirs, func(dir evidence.Dir) bool { return dir == "" }), errors.Join(errs...)
}

// runHooks runs hooks of the run. It fails if a hook with error_on_fail fails.
func (s *scheduler) runHooks(ctx context.Context, hooks []eval.Hook) error {
	for _, hook := range hooks {
		failed, err := trial.HookOnHost(ctx, hook, s.o.Start, s.o.Host.Secrets)
		if err == nil && failed != "" {
			err = fmt.Errorf("hook %q on the host %s", hook.Command, failed)
			if !hook.ErrorOnFail {
				s.o.Host.Warn(err)
				err = nil
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Update is a progress event of a trial: it entered a phase, or a tool was called. Result is
// set with PhaseAgain and PhaseDone.
type Update struct {
	Task    string
	Number  int
	Attempt int // starts at 1
	Phase   evidence.Phase
	Call    *trial.Calling // nil if the trial entered the phase
	Result  *Result
}

// Progress returns the update as it is recorded, without its time.
func (u Update) Progress() evidence.Progress {
	p := evidence.Progress{Task: u.Task, Number: u.Number, Attempt: u.Attempt, Phase: u.Phase}
	if u.Result != nil {
		v := u.Result.Dir.Explained(u.Result.Trial, u.Result.Verdicts)
		p.Class, p.Reason, p.Message = v.Class, v.Reason, view.WhyOf(results.Graded(v)).Line()
	}
	return p
}

// progressWriter records phases. Write errors do not affect trials and are reported once. A nil
// progressWriter does nothing.
type progressWriter struct {
	log  *evidence.ProgressLog
	warn func(error)
	once sync.Once
}

// openProgress opens the progress file. If that fails, it warns and returns nil.
func openProgress(o Options) *progressWriter {
	log, err := evidence.OpenProgress(o.Dir, o.Host.Secrets)
	if err != nil {
		o.Host.Warn(err)
		return nil
	}
	return &progressWriter{log: log, warn: o.Host.Warn}
}

func (l *progressWriter) add(u Update) {
	if l == nil {
		return
	}
	l.check(l.log.Append(u.Progress()))
}

func (l *progressWriter) check(err error) {
	if err != nil {
		l.once.Do(func() { l.warn(err) })
	}
}

func (l *progressWriter) close() {
	if l != nil {
		l.check(l.log.Close())
	}
}

// enters reports that a trial enters a phase. When its agent starts, the next trial's sandbox
// is opened.
func (s *scheduler) enters(t *plan.Trial, phase evidence.Phase) {
	if phase == evidence.PhaseAgent {
		s.pool.openNext()
	}
	s.report(Update{Task: t.Task, Number: t.Number, Attempt: max(t.Attempt, 1), Phase: phase})
}

// ends reports the result of an attempt at a trial.
func (s *scheduler) ends(t *plan.Trial, phase evidence.Phase, result *Result) {
	s.report(Update{Task: t.Task, Number: t.Number, Attempt: max(t.Attempt, 1), Phase: phase, Result: result})
}

func (s *scheduler) report(u Update) {
	s.progress.add(u)
	s.o.Progress(u)
}
