package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/containers"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox/local"
)

// resumption is a run that ended early, and is to be completed.
type resumption struct {
	record runner.Record
	left   runner.Recovered
}

// resumeCommand is waza run --resume.
type resumeCommand struct{ *state }

// resumeRun completes the run that --resume names, as it was begun.
func (s resumeCommand) resumeRun(c *cli.Context) error {
	o, err := readResumeOptions(c)
	if err != nil {
		return err
	}
	dir := c.String("resume")
	if _, err := runner.ReadRecord(dir); err != nil {
		return usage("--resume: %w", err)
	}
	held, err := runner.Hold(dir)
	if err != nil {
		return alive(err)
	}
	defer func() { _ = held.Close() }()
	record, err := runner.ReadRecord(dir) // as it is now that nobody else writes to it
	if err != nil {
		return usage("--resume: %w", err)
	}
	if c.IsSet("isolate") && c.Bool("isolate") != record.Isolated {
		return usage("--isolate cannot be changed with --resume: a run goes on as it was begun")
	}
	left, err := runner.Recover(c.Context, dir, record, s.consulting(c))
	if err != nil {
		return infra(err)
	}
	r := &resumption{record, left}
	if left.Complete {
		return s.conclude(c.Context, dir, o, r)
	}
	j, err := s.resumedJob(c, o, r)
	if err != nil {
		return err
	}
	for _, damaged := range left.Damaged {
		fmt.Fprintf(s.stderr, "%s; it is run again, and what was there is kept in %s\n", damaged, evidence.InterruptedDir)
	}
	ctx, stop := interruptible(c.Context, s.stderr)
	defer stop()
	if err := errors.Join(j.checkDisk(dir), j.readSecrets(ctx)); err != nil {
		return err
	}
	_, err = j.carryOut(ctx, dir, record)
	return err
}

// harmless are the options that can be given with --resume: they change no trial's
// outcome. That of --isolate must be the run's own.
var harmless = []string{"resume", "isolate", "workers", "parallel", "output", "format", "v", "debug", "q", "reporter", "output-dir", "transcript-dir", "session-log", "session-dir", "no-update-check", "no-cache", "no-summary", "allow-host-hooks", judgeURL, judgeKeyEnv}

func readResumeOptions(c *cli.Context) (o runOptions, err error) {
	for _, flag := range c.Command.Flags {
		if name := flag.Names()[0]; c.IsSet(name) && !slices.Contains(harmless, name) {
			return o, usage("--%s cannot be given with --resume: a run goes on as it was begun", name)
		}
	}
	if c.NArg() > 1 {
		return o, usage("run --resume takes no eval file, or the one that the run began with; see waza run --help")
	}
	return o, o.readHarmless(c)
}

// resumedJob plans the run anew, and refuses where that does not come to what was
// begun.
func (s resumeCommand) resumedJob(c *cli.Context, o runOptions, r *resumption) (*job, error) {
	record := r.record
	if record.Waza != s.version || record.Build != s.buildID() {
		return nil, usage("the run was begun by waza %s (build %s) and this is waza %s (build %s): resume it with that one, or begin a new run",
			record.Waza, record.Build, s.version, s.buildID())
	}
	path := c.Args().First()
	if path == "" {
		path = fromDirectory(record, record.Eval.Path)
	}
	if err := record.CheckInputs(path); err != nil {
		return nil, usage("%w: begin a new run", err)
	}
	overlay, err := s.sameOverlay(record)
	if err != nil {
		return nil, err
	}
	o.isolate, o.trials, o.infraRetries = record.Isolated, record.Trials, record.Retries
	o.timeout, o.pull, o.pins, o.allowWeak = record.Timeout, record.Pull, record.Pins, record.Weak()
	o.noAttacks, o.noSkills, o.baseline = record.NoAttacks, record.NoSkills, record.Baseline
	o.variant = variant{record.Executor, record.Model}
	o.start, o.judgeModel, o.skipGraders = record.Directory, record.JudgeModel, record.SkipGraders
	if record.ContextDir != "" {
		o.contextDir = fromDirectory(record, record.ContextDir)
	}
	if o.workers == 0 {
		o.workers = record.Workers
	}
	j, err := s.load(o, path, overlay, func(tasks []eval.ResolvedTask) ([]eval.ResolvedTask, error) {
		return sameTasks(tasks, record.Tasks)
	})
	if err != nil {
		return nil, err
	}
	j.runID, j.resumed = record.ID, r
	return j, j.plan(likelyPlatform())
}

// fromDirectory is a path of the command line that began the run.
func fromDirectory(record runner.Record, path string) string {
	if here, err := os.Getwd(); filepath.IsAbs(path) || err == nil && here == record.Directory {
		return path
	}
	return filepath.Join(record.Directory, path)
}

func (s resumeCommand) sameOverlay(record runner.Record) (*mcpconfig.ClientFile, error) {
	if record.MCP == nil {
		return nil, nil
	}
	overlay, err := s.overlayFrom(fromDirectory(record, record.MCP.Path))
	if err != nil {
		return nil, err
	}
	if record.MCP.SHA256 != "" && overlay.SHA256 != record.MCP.SHA256 {
		return nil, usage("%s has changed since the run began: begin a new run", overlay.Name)
	}
	return overlay, nil
}

// sameTasks is the tasks that the run began with.
func sameTasks(tasks []eval.ResolvedTask, begun []runner.TaskRecord) ([]eval.ResolvedTask, error) {
	var same []eval.ResolvedTask
	for _, b := range begun {
		at := slices.IndexFunc(tasks, func(t eval.ResolvedTask) bool { return t.ID == b.ID })
		if at < 0 {
			return nil, usage("the eval has no task %s any more, which the run began with: begin a new run", b.ID)
		}
		same = append(same, tasks[at])
	}
	return same, nil
}

// samePlan refuses another plan than the run began with, and notes the plan of one
// that begins.
func (j *job) samePlan(record *runner.Record) error {
	plan := runner.PlanDigest(j.trials, j.secrets)
	if record.Plan != "" && record.Plan != plan {
		return usage("the trials are planned otherwise than when the run began, though no file has changed: set the variables of your environment, %s, and repositories of tasks, as they were, or begin a new run", lockPath(j.eval))
	}
	record.Plan = plan
	return nil
}

// sameImages refuses other images than the run began with.
func sameImages(begun, now evidence.ImageRecords) error {
	for _, ref := range slices.Sorted(maps.Keys(begun)) {
		if found, ok := now[ref]; ok && found.ID != begun[ref].ID {
			return usage("image %s is another than the run began with (%.19s, now %.19s): begin a new run", ref, begun[ref].ID, found.ID)
		}
	}
	return nil
}

// begin writes down that trials begin now. In a resumed run it first sets aside what
// of them is there.
func (j *job) begin(dir string, record *runner.Record) error {
	if j.resumed != nil {
		for _, t := range j.todo() {
			if err := j.resumed.left.SetAside(dir, t.ID()); err != nil {
				return err
			}
		}
		record.Resumed = append(record.Resumed, j.clock.Now())
		record.Ended, record.Interrupted, record.Files = time.Time{}, false, nil
		record.Workers = j.workers()
	}
	if j.against != "" {
		if err := runner.WriteBaseline(dir, j.against); err != nil {
			return err
		}
		against, err := filepath.Abs(j.against)
		if err != nil {
			return err
		}
		record.Against = against
	}
	return record.Write(dir)
}

// todo is the trials that are to be run.
func (j *job) todo() []*plan.Trial {
	if j.resumed == nil {
		return j.trials
	}
	return slices.DeleteFunc(slices.Clone(j.trials), func(t *plan.Trial) bool {
		_, kept := j.resumed.left.Kept[t.ID()]
		return kept
	})
}

// withKept is the results of this process's trials and of those before it, in order.
func (j *job) withKept(done []runner.Result) []runner.Result {
	if j.resumed == nil {
		return done
	}
	all := maps.Clone(j.resumed.left.Kept)
	for _, result := range done {
		all[plan.TrialID{Task: result.Trial.Task, Number: result.Trial.Number}] = result
	}
	return inOrder(j.resumed.record, all)
}

func inOrder(record runner.Record, all map[plan.TrialID]runner.Result) (results []runner.Result) {
	for _, task := range record.Tasks {
		for number := 1; number <= record.TrialsOf(task); number++ {
			if result, ok := all[plan.TrialID{Task: task.ID, Number: number}]; ok {
				results = append(results, result)
			}
		}
	}
	return results
}

// conclude is the end of a run that has no trial left to run. One that was killed
// before it could say so is swept and sealed.
func (s resumeCommand) conclude(ctx context.Context, dir string, o runOptions, r *resumption) error {
	fmt.Fprintf(s.stderr, "%s is complete: no trial is left to run\n", dir)
	record := r.record
	if record.Ended.IsZero() || record.Interrupted {
		if err := sweep(ctx, record); err != nil {
			return alive(err)
		}
		j := &job{state: s.state, options: o, resumed: r, clock: evidence.StartClock(time.Now())}
		return j.finish(ctx, dir, record, inOrder(record, r.left.Kept), nil)
	}
	summary, err := runner.Summarise(dir, record)
	if err != nil {
		return infra(err)
	}
	reported := errors.Join(record.Report(dir, summary), record.Reseal(dir))
	if err := s.showAs(record.Shown(dir, summary), o); err != nil {
		return err
	}
	if reported != nil {
		return infra(reported)
	}
	if o.format == formatDefault {
		fmt.Fprintf(s.stdout, "\nrun directory: %s\n", dir)
	}
	return exitWith(record.ExitCode(summary))
}

// sweep removes what a dead run left.
func sweep(ctx context.Context, record runner.Record) error {
	if record.Isolated {
		return containers.Sweep(ctx, record.ID)
	}
	return local.Sweep(ctx, "", record.ID)
}

// isResumable says whether another try could give the run outcomes that it lacks.
func isResumable(record runner.Record, done []runner.Result) bool {
	return record.Interrupted || slices.ContainsFunc(done, func(r runner.Result) bool { return r.Verdicts.Class == evidence.ClassInfra })
}
