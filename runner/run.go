// Package runner runs the trials of an eval, as package plan has planned them, and maintains
// the run directory. [Run] executes a run from its plan to its report, and [Resume] completes
// one that ended early. [Regrade] repeats the verdicts of a run from its directory, and
// [Inspect] inspects MCP servers without an agent.
package runner

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/runner/trial"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/selftest"
)

// Job is a planned run of an eval.
type Job struct {
	ID     string
	Eval   *eval.Eval
	Tasks  []eval.ResolvedTask
	Trials []*plan.Trial
	// LeftOut are the ids of the tasks that the request did not select.
	LeftOut []string
	// Dir is the run directory; [RunBatch] sets that of a new run. Base is the baseline without
	// faults or skills, which runs first; may be nil.
	Dir  string
	Base *Job

	Request Request

	lock  *images.Lock
	clock *evidence.Clock
	open  map[string]bool // variables whose values were announced as not secret
}

// execution is a job that is being run.
type execution struct {
	*Job
	todo     []*plan.Trial // trials left to run
	workers  int           // trials at once
	left     Recovered     // state of the resumed run
	resumed  bool
	baseline *Outcome // outcome of Base; may be nil
	record   Record
}

// Outcome is the result of a run.
type Outcome struct {
	Dir     string // run directory; empty if no trial was started
	Record  Record
	Results results.Results
	Written bool // whether results, reports and digests were written
}

// ExitCode returns the run's exit code.
func (o Outcome) ExitCode() int { return o.Results.ExitCode(o.Record.Planned(), o.Record.FailFast) }

// View returns the view of the run.
func (o Outcome) View() view.Run { return o.Record.View(o.Dir, o.Results) }

// Load reads an eval and plans its trials. It starts nothing. Errors in the request or in files
// are of type [Mistake] or [strictyaml.Errors]. If ctx ends, Load returns at once, even while a
// file system does not answer.
func Load(ctx context.Context, q Request) (*Job, error) {
	type loaded struct {
		job *Job
		err error
	}
	done := make(chan loaded, 1)
	go func() {
		j, err := readJob(q)
		if err == nil {
			err = j.plan()
		}
		done <- loaded{j, err}
	}()
	select {
	case l := <-done:
		return l.job, l.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// readJob is [Load] without the plan.
func readJob(q Request) (*Job, error) {
	e, tasks, err := eval.Load(q.Eval, eval.Options{
		ContextDir: q.ContextDir, Overlay: q.Overlay, Egress: q.Egress, CheckScript: q.Host.CheckScript, CheckModelScript: q.Host.CheckModelScript, Local: !q.Isolated, AsWritten: q.AsWritten,
		Executor: q.Executor, Model: q.Model, JudgeModel: q.JudgeModel, Start: q.Start,
		NoSkills: q.NoSkills, Faults: q.Faults, UpdateSnapshots: q.UpdateSnapshots, Playing: q.Playing,
	})
	if e != nil {
		q.Host.Notice(e.Warnings)
	}
	if err != nil {
		return nil, Mistake{err}
	}
	q.Isolated, q.AsWritten = !e.Local, false
	if err := q.checkContainers(); err != nil {
		return nil, err
	}
	var leftOut []string
	if q.Select != nil {
		all := tasks
		if tasks, err = q.Select(all); err != nil {
			return nil, err
		}
		leftOut = unselected(all, tasks)
	}
	if q.Shard != nil {
		shard := *q.Shard
		if tasks, err = shard.tasksOf(tasks); err != nil {
			return nil, err
		}
		q.Shard = &shard
	}
	if q.SkipGraders {
		for i := range tasks {
			tasks[i].Graders, tasks[i].Checkpoints, tasks[i].Attack = nil, nil, nil
		}
	}
	j := &Job{ID: cmp.Or(q.ID, NewID(q.Name+" "+e.Name)), Eval: e, Tasks: tasks, LeftOut: leftOut, Request: q, clock: evidence.StartClock(time.Now())}
	if q.Overlay != nil {
		for _, secret := range q.Overlay.Secrets {
			q.Host.Secrets.Add(secret)
		}
	}
	if q.Isolated {
		if j.lock, err = ReadLock(e); err != nil {
			return nil, err
		}
	}
	return j, nil
}

// unselected returns the ids of the tasks among all that are not selected.
func unselected(all, selected []eval.ResolvedTask) (ids []string) {
	chosen := map[string]bool{}
	for _, t := range selected {
		chosen[t.ID] = true
	}
	for _, t := range all {
		if !chosen[t.ID] {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// trials plans every trial, with packages as locked.
func (j *Job) trials() ([]*plan.Trial, error) {
	q := j.Request
	return plan.Plan(j.Eval, j.Tasks, plan.Choices{
		Run: j.ID, Trials: q.Trials, Timeout: q.Timeout, Pull: q.Pull, On: q.On, Cluster: q.Host.Cluster, Lookup: q.Host.Lookup, Secrets: q.Host.Secrets, Open: j.tellOpen,
		Lock: j.lock, Platform: defaultPlatform(), Pins: q.Pins, ModelScript: q.Host.ModelScript,
		NoAttacks: q.NoAttacks, Keyless: q.Keyless, NoSkills: q.NoSkills, HostHooks: q.HostHooks, Omit: q.Omit, Output: q.Host.Output,
	})
}

// tellOpen tells once that a variable's value is not secret.
func (j *Job) tellOpen(variable, why string) {
	if j.open[variable] || j.Request.Host.Warn == nil {
		return
	}
	if j.open == nil {
		j.open = map[string]bool{}
	}
	j.open[variable] = true
	j.Request.Host.Warn(errors.New("the value of the variable " + variable + " is not hidden in what is recorded, since " + why +
		"; if it is secret, give it to its server under secrets"))
}

// plan sets the job's trials, and checks that they can be run.
func (j *Job) plan() (err error) {
	q := j.Request
	if j.Trials, err = j.trials(); err != nil {
		return Mistake{err}
	}
	if q.Host.Hold != nil && len(j.Trials) != 1 {
		return mistake("--keep keeps one sandbox and this would run %d trials; choose one with --task and --trials 1", len(j.Trials))
	}
	if q.Keyless {
		return nil
	}
	for _, t := range j.Trials {
		if t.Judge != nil {
			if _, err := trial.JudgeOf(t, q.Host.Connect)(*t.Judge); err != nil {
				return err
			}
		}
	}
	return nil
}

// Run runs a job in its run directory, which must be new or empty, and writes the reports. When
// it returns, nothing of the trials is left on the engine or as processes, and if no trial
// could be started, nothing at all. If baseline is not nil, the run is compared with it. The
// run is interrupted when ctx is done.
func Run(ctx context.Context, j *Job, baseline *Outcome) (Outcome, error) {
	workers, err := j.workersFor(j.Trials)
	if err != nil {
		return Outcome{}, err
	}
	if err := j.readSecrets(ctx); err != nil {
		return Outcome{}, err
	}
	record, err := j.newRecord(workers)
	if err != nil {
		return Outcome{}, err
	}
	made, err := makeRunDir(j.Dir)
	if err != nil {
		return Outcome{}, err
	}
	defer func() { _ = made.held.Close() }()
	out := Outcome{}
	if err = record.Write(j.Dir); err == nil {
		e := &execution{Job: j, todo: j.Trials, workers: workers, baseline: baseline, record: record}
		out, err = e.execute(ctx)
	}
	if out.Dir == "" {
		err = errors.Join(err, made.abandon())
	}
	return out, err
}

// execute runs the remaining trials and writes the reports. Before the first trial starts, it
// changes nothing in the run directory, except that run.json gets a certificate that prevents
// the run.
func (e *execution) execute(ctx context.Context) (Outcome, error) {
	backend, err := e.Request.Host.Open(ctx, Opening{Run: e.ID, Isolated: e.Request.Isolated, Resume: e.resumed, Trials: e.Trials, AllowWeak: e.Request.AllowWeak})
	if err != nil {
		return Outcome{}, err
	}
	if size, ok := backend.(Sized); ok {
		if _, auto := e.Request.workers(e.Eval.Config); auto {
			e.workers = min(e.workers, workersOf(size.Size()))
		}
	}
	closing := context.WithoutCancel(ctx)
	if err := e.setUp(ctx, backend); err != nil {
		if !errors.Is(err, errWeak) {
			err = orCause(ctx, err)
		}
		err = errors.Join(err, backend.Close(closing))
		if errors.Is(err, errWeak) {
			return Outcome{Dir: e.Dir, Record: e.record}, errors.Join(err, e.record.Write(e.Dir))
		}
		return Outcome{}, err
	}
	completed, failed := e.runTrials(ctx, backend)
	failed = errors.Join(failed, backend.Close(closing))
	out, err := finish(ctx, e.Dir, e.record, completed, e.clock.Now())
	return out, errors.Join(failed, err)
}

// setUp gets everything that the trials need, and records their start.
func (e *execution) setUp(ctx context.Context, backend sandbox.Backend) error {
	if err := e.installPackages(ctx, backend); err != nil {
		return err
	}
	if err := e.Request.Host.fetchRepos(ctx, e.Trials); err != nil {
		return err
	}
	if err := e.getImages(ctx, backend); err != nil {
		return err
	}
	if err := e.certify(ctx, backend); err != nil {
		return err
	}
	return e.recordStart()
}

// workersFor returns how many of the trials run at once. It fails if there is too little space on the
// disk.
func (j *Job) workersFor(trials []*plan.Trial) (int, error) {
	most, auto := j.Request.workers(j.Eval.Config)
	if auto {
		most = min(most, len(trials))
	}
	if err := evidence.CheckSpace(j.Dir); err != nil {
		return 0, Mistake{err}
	}
	return most, nil
}

// readSecrets reads the values of the servers' secrets and sets them in the trials, if the user
// permits what the eval gives away.
func (j *Job) readSecrets(ctx context.Context) error {
	if err := j.Request.Host.permit(ctx, j.Eval, j.Trials); err != nil {
		return err
	}
	vault, err := openVault(ctx, j.Trials, j.Eval.Dir(), j.Request.Host.Lookup, j.Request.Host.Secrets)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return Mistake{err}
	}
	vault.Give(j.Trials)
	return nil
}

// newRecord returns the initial run.json.
func (j *Job) newRecord(workers int) (Record, error) {
	q := j.Request
	record, err := recordOf(j.Eval, j.Tasks, q.Overlay)
	if err != nil {
		return record, err
	}
	if record.Inputs, err = inputsOf(j.Eval, j.Tasks, j.Trials); err != nil {
		return record, err
	}
	if err = record.DropSecretDigests(j.Eval.Path, q.Host.Secrets); err != nil {
		return record, err
	}
	record.Started = j.clock.Now()
	if record.Directory, err = os.Getwd(); err != nil {
		return record, err
	}
	record.ID, record.Waza, record.Build = j.ID, q.Host.Waza, q.Host.Build()
	record.Choices, record.Shard, record.LeftOut = q.Choices, q.Shard, j.LeftOut
	record.Workers = workers
	if record.Trials == 0 {
		record.Trials = j.Eval.Config.TrialsPerTask
	}
	record.Network, record.Models = j.Trials[0].Network, j.Trials[0].Models
	record.MaxAttempts, record.FailFast = j.Eval.Config.MaxAttempts, j.Eval.Config.FailFast
	return record, q.keep(&record)
}

// installPackages sets the versions of packages in the plans. Packages that are not in the lock
// file are resolved and added to it. The file is read again, as another run may have added
// entries.
func (j *Job) installPackages(ctx context.Context, backend sandbox.Backend) error {
	lock, err := ReadLock(j.Eval)
	if err != nil {
		return err
	}
	return install(ctx, backend, j.Trials, lock, keptInLock, j.Request.Host.Say, func(entries []images.Entry) (*images.Lock, error) {
		current, err := ReadLock(j.Eval)
		if err != nil {
			return nil, err
		}
		current = current.Fill(entries)
		return current, WriteLock(j.Eval, current)
	})
}

// getImages gets all images, and adds them and the plan to the record. In a resumed run both
// must be the same as before.
func (e *execution) getImages(ctx context.Context, backend sandbox.Backend) error {
	secrets, record := e.Request.Host.Secrets, &e.record
	planned := planDigest(e.Trials, secrets)
	if record.Plan != "" && record.Plan != planned {
		return mistake("the plan of the trials has changed since the run started, though no file has changed: set the variables of your environment, %s, and repositories of tasks, as they were, or start a new run", LockPath(e.Eval))
	}
	record.Plan = planned
	if err := backend.Prepare(ctx, plan.Specs(e.Trials), e.Request.Host.Say); err != nil {
		return err
	}
	engine, used := backend.Describe(), backend.Images()
	found := evidence.ImageRecords{}
	for ref, image := range used {
		image.Digests = slices.Clone(image.Digests)
		for i, digest := range image.Digests {
			image.Digests[i] = secrets.String(digest)
		}
		found[secrets.String(ref)] = image
	}
	if err := sameImages(record.Images, found); err != nil {
		return err
	}
	record.Engine, record.Images = engine, found
	return nil
}

// certify attacks a sandbox of the run's kind, unless a valid certificate exists, and adds
// the result to the record. It fails if an attack that is not allowed gets out.
func (e *execution) certify(ctx context.Context, backend sandbox.Backend) (err error) {
	attackable, ok := backend.(selftest.Backend)
	if !ok || !defence.Certificate {
		return nil
	}
	e.record.Certificate, err = Certify(ctx, attackable, e.ID, e.Trials[0].Kind(), e.Request.Host.Certificates.Of(e.Request.Host.Build()), e.Request.AllowWeak, e.Request.Host.Say)
	return err
}

// recordStart records the start of the trials. In a resumed run it first moves their earlier files
// aside; in a new run it copies the trials that are kept.
func (e *execution) recordStart() error {
	record := &e.record
	if e.resumed {
		for _, t := range e.todo {
			if err := e.left.SetAside(e.Dir, t.ID()); err != nil {
				return err
			}
		}
		record.Resumed = append(record.Resumed, e.clock.Now())
		record.Ended, record.Interrupted, record.Files = time.Time{}, false, nil
	} else if err := e.copyKept(); err != nil {
		return err
	}
	record.Workers = e.workers
	if e.baseline != nil {
		// without agents' messages, which are in the baseline's own results
		if err := evidence.WriteJSON(filepath.Join(e.Dir, baselineFile), e.baseline.Results); err != nil {
			return err
		}
		absolute, err := filepath.Abs(e.baseline.Dir)
		if err != nil {
			return err
		}
		record.Against = absolute
	}
	return record.Write(e.Dir)
}

// runTrials runs the remaining trials, and returns how many trials are completed.
func (e *execution) runTrials(ctx context.Context, backend sandbox.Backend) (completed int, err error) {
	q, config := e.Request, e.Eval.Config
	update, end := q.Host.Watch(ctx, len(e.todo), e.workers)
	defer end()
	o := Options{
		Host: q.Host, Dir: e.Dir, Workers: e.workers, Prewarm: q.prewarm(e.workers), Progress: update,
		FailFast: config.FailFast, InfraRetries: q.Retries, MaxAttempts: config.MaxAttempts,
		Hooks: plan.RunHooks(e.Eval.Hooks), Start: q.Start, Weak: e.record.Weak(), Against: e.record.Against,
	}
	if q.UpdateSnapshots {
		o.Snapshots = newSnapshots(e.Eval, e.Tasks, q.Host.Say)
	}
	done, err := RunTrials(ctx, backend, e.todo, o)
	return len(e.left.Kept) + len(done), err
}

// finish records the end of a run with so many completed trials, and writes its results and
// reports.
func finish(ctx context.Context, dir string, record Record, completed int, now time.Time) (Outcome, error) {
	record.Ended = now
	record.Interrupted = ctx.Err() != nil && completed < record.Planned()
	for id, task := range record.trials() {
		if first, err := TrialDir(dir, id.Task, id.Number).Trial(); err == nil && !task.Kept {
			record.Guarantees = first.Guarantees
			break
		}
	}
	return record.end(dir)
}
