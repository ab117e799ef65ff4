package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner/plan"
)

// Batch is all runs of one command: one or several evals, each with one or several agents and
// models. Each run may have a baseline without faults or, if the eval has none, without skills.
type Batch struct {
	Evals    []string  // paths; at least one
	Variants []Variant // at least one
	Paired   bool      // also run the baseline, as the eval's baseline does
	// Dir is the run directory, which must be new or empty. If there are several runs, each has
	// a subdirectory. If empty, each run gets a new directory below .waza/runs.
	Dir string

	// Request returns the common part of all requests. It is called for each run, so that runs
	// do not share their secrets.
	Request func() (Request, error)
	// Announce prints which run starts.
	Announce func(string)
	// Print prints a run's plan instead of running it; may be nil.
	Print func(*Job) error
	// Ended prints the outcome of a run. It returns the run's error joined with errors of
	// printing.
	Ended func(*Job, Outcome, error) error
	// Compared prints the comparison of an eval's runs.
	Compared func(eval string, c results.Comparison) error
	// Failed prints an error. Remaining runs are started nevertheless.
	Failed func(error)
}

// Variant overrides the eval's agent and model. Empty fields override nothing.
type Variant struct{ Executor, Model string }

func (v Variant) set(q *Request) { q.Executor, q.Model, q.Name = v.Executor, v.Model, v.Slug() }

// Slug returns v as a directory name.
func (v Variant) Slug() string { return slug(v.Executor+"-"+v.Model, 48) }

// RunBatch runs all runs of b, one after another, until ctx is done.
func RunBatch(ctx context.Context, b Batch) {
	if b.Print == nil {
		if err := b.checkOffline(ctx); err != nil {
			b.Failed(err)
			return
		}
	}
	for i, eval := range b.Evals {
		if len(b.Evals) > 1 {
			if ctx.Err() != nil {
				b.Failed(fmt.Errorf("interrupted before eval %d of %d began", i+1, len(b.Evals)))
				return
			}
			b.Announce(fmt.Sprintf("eval %d of %d: %s", i+1, len(b.Evals), eval))
		}
		if err := b.runEval(ctx, eval); err != nil {
			b.Failed(err)
		}
	}
}

// runEval runs an eval with each variant. It plans all runs before it starts the first.
func (b Batch) runEval(ctx context.Context, eval string) error {
	jobs, err := b.load(ctx, eval)
	if err != nil {
		return err
	}
	if first := jobs[0]; first.Eval.Contained != "" {
		first.Request.Host.Say(first.Eval.Contained + ", so each trial runs in its own containers, as with --isolate")
	}
	if b.Print != nil {
		return b.print(jobs)
	}
	if err := b.place(jobs); err != nil {
		return err
	}
	if len(jobs) == 1 {
		_, err := b.run(ctx, jobs[0])
		return err
	}
	var entries []results.Entry
	reported := map[string]int{} // number of the first run that failed with an error
	for i, j := range jobs {
		agent := strings.TrimSpace(j.Eval.Config.Executor + " " + j.Eval.Config.Model)
		out, err := Outcome{}, errNotBegun
		if ctx.Err() == nil {
			b.Announce(fmt.Sprintf("run %d of %d: %s", i+1, len(jobs), agent))
			out, err = b.run(ctx, j)
		}
		if err != nil && reported[err.Error()] > 0 { // such as an image that cannot be built
			b.Announce(fmt.Sprintf("run %d failed as run %d did", i+1, reported[err.Error()]))
		} else if err != nil {
			reported[err.Error()] = i + 1
			b.Failed(err)
		}
		entries = append(entries, j.entry(out, err))
	}
	return b.Compared(eval, results.Compare(entries))
}

var errNotBegun = errors.New("interrupted before it began")

// load plans the runs of an eval: one for each variant, with a baseline without skills if one is
// requested and a task has skills.
func (b Batch) load(ctx context.Context, path string) (jobs []*Job, err error) {
	for _, v := range b.Variants {
		j, err := b.plan(ctx, path, v.set)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
		if v.Model != "" && j.Eval.Config.Executor == evidence.ExecutorScript {
			return nil, mistake("--model %s has no effect on executor script, which plays the tasks' scripts; name an agent that asks a model with --executor, or leave out --model", v.Model)
		}
		faulty := slices.ContainsFunc(j.Trials, func(t *plan.Trial) bool { return len(t.Faults) > 0 })
		if j.Request.NoSkills && !faulty || !b.Paired && !j.Eval.Baseline {
			continue
		}
		if j.Request.UpdateSnapshots {
			return nil, mistake("--update-snapshots takes snapshots of one run, and a baseline makes it two; remove one of them")
		}
		if !faulty && !slices.ContainsFunc(j.Trials, func(t *plan.Trial) bool { return len(t.Skills) > 0 }) {
			b.Announce("no task has a skill or a fault, so there is nothing to compare; running without a baseline")
			continue
		}
		if j.Request.Shard != nil {
			return nil, mistake("--shard cannot be given with a baseline, which is a run of its own: run its shards with --no-skills, or --faults none, and compare the merged runs")
		}
		if j.Request.Host.Hold != nil {
			return nil, mistake("--keep keeps one sandbox and this would be two runs; leave out the baseline")
		}
		j.Base, err = b.plan(ctx, path, func(q *Request) {
			q.Executor, q.Model, q.Name, q.Baseline = v.Executor, v.Model, "baseline", true
			if faulty {
				q.Faults = eval.NoFaults
			} else {
				q.NoSkills = true
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

// plan plans one run.
func (b Batch) plan(ctx context.Context, eval string, set func(*Request)) (*Job, error) {
	q, err := b.Request()
	if err != nil {
		return nil, err
	}
	q.Eval = eval
	if b.Dir != "" {
		q.Omit = []string{b.Dir, b.Dir + baselineSuffix}
	}
	set(&q)
	j, err := Load(ctx, q)
	if err == nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return j, err
}

// print prints the plans of the runs, and then the plans of the baselines.
func (b Batch) print(jobs []*Job) error {
	for _, j := range jobs {
		if err := b.Print(j); err != nil {
			return err
		}
	}
	for _, j := range jobs {
		if j.Base == nil {
			continue
		}
		if err := b.Print(j.Base); err != nil {
			return err
		}
	}
	return nil
}

// baselineSuffix is appended to a run directory's name for the baseline's.
const baselineSuffix = "-baseline"

// place sets the directories of the runs. A baseline's directory is next to its run's.
func (b Batch) place(jobs []*Job) error {
	if b.Dir != "" && len(jobs) > 1 {
		if err := checkNewOrEmpty(b.Dir); err != nil {
			return err
		}
	}
	for i, j := range jobs {
		dir, baseDir := b.Dir, ""
		if dir != "" && len(jobs) > 1 {
			dir = filepath.Join(dir, fmt.Sprintf("%d-%s", i+1, j.Request.Name))
		}
		if dir != "" {
			baseDir = dir + baselineSuffix
		}
		if err := j.place(dir); err != nil {
			return err
		}
		if j.Base == nil {
			continue
		}
		if err := j.Base.place(baseDir); err != nil {
			return err
		}
	}
	return nil
}

// place sets the job's run directory, which must be new or empty. If dir is empty, it is a new
// directory below .waza/runs.
func (j *Job) place(dir string) error {
	j.Dir = dir
	if dir == "" {
		j.Dir = filepath.Join(ownDir, "runs", j.ID)
		return nil
	}
	j.Dir = NamedDir(dir)
	return checkNewOrEmpty(dir)
}

func checkNewOrEmpty(dir string) error {
	ok, err := IsNewOrEmpty(dir)
	switch {
	case err != nil:
		return mistake("run directory: %w; name a new one with --run-dir", err)
	case !ok:
		return mistake("run directory %s is not empty; name a new one with --run-dir", dir)
	}
	return nil
}

// IsNewOrEmpty reports whether a directory does not exist or is empty.
func IsNewOrEmpty(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return len(entries) == 0, err
}

// run runs a job's baseline, if it has one, and then the job. It stops if the baseline failed
// or left trials without an outcome.
func (b Batch) run(ctx context.Context, j *Job) (Outcome, error) {
	if j.Base == nil {
		return b.runAfter(ctx, j, nil)
	}
	what := "skills"
	if j.Base.Request.Faults == eval.NoFaults {
		what = "faults"
	}
	b.Announce("run 1 of 2: without " + what)
	baseline, err := b.runAfter(ctx, j.Base, nil)
	if err != nil || baseline.ExitCode() > results.ExitFailed {
		return Outcome{}, err
	}
	if ctx.Err() != nil {
		return Outcome{}, fmt.Errorf("interrupted before the run with %s began", what)
	}
	b.Announce("run 2 of 2: with " + what)
	return b.runAfter(ctx, j, &baseline)
}

func (b Batch) runAfter(ctx context.Context, j *Job, baseline *Outcome) (Outcome, error) {
	out, err := Run(ctx, j, baseline)
	return out, b.Ended(j, out, err)
}

// entry returns a run's entry in a comparison. err is the run's error.
func (j *Job) entry(out Outcome, err error) results.Entry {
	config := j.Eval.Config
	entry := results.Entry{Outline: results.Outline{EvalName: j.Eval.Name, OutlineConfig: results.OutlineConfig{Agent: config.Executor, Model: config.Model, Isolated: j.Request.Isolated}}}
	switch {
	case !out.Results.Timestamp.IsZero():
		entry = results.Entry{Outline: out.Results.Outline(), Path: out.Dir, Made: out.Record.Settings()}
	case err == nil:
		err = errors.New("its baseline left trials without an outcome")
	}
	if err != nil {
		entry.Error = text.Inert(text.FirstLine(err.Error()))
	}
	return entry
}
