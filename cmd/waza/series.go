package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/plan"
)

// series is an eval that is run several times, one run after another, each with
// another agent or model.
type series struct {
	*state
	jobs   []*job
	bases  []*job   // the same without skills; nil where there is none
	dirs   []string // of the runs
	format format
	output string
}

// runEach runs the eval with each variant and compares the runs. All of them are
// planned before the first begins.
func (s runCommand) runEach(c *cli.Context, variants []variant) error {
	if c.Bool("keep") {
		return usage("--keep keeps one sandbox and this would be %d runs; name one --executor and one --model", len(variants))
	}
	r := &series{state: s.state}
	for _, v := range variants {
		j, err := s.newJob(c, v)
		if err != nil {
			return err
		}
		var without *job
		if !j.options.NoSkills && (c.Bool("baseline") || j.Eval.Baseline) && j.hasSkills() {
			if without, err = j.withoutSkills(c); err != nil {
				return err
			}
			without.options.apart = strings.Trim(without.options.apart+"_"+v.slug()+"_baseline", "_")
		}
		j.options.apart = strings.Trim(j.options.apart+"_"+v.slug(), "_")
		r.jobs, r.bases = append(r.jobs, j), append(r.bases, without)
	}
	if c.Bool("dry-run") {
		for _, j := range r.jobs {
			if err := j.dryRun(); err != nil {
				return err
			}
		}
		for _, without := range r.bases {
			if without == nil {
				continue
			}
			if err := without.dryRun(); err != nil {
				return err
			}
		}
		return nil
	}
	if err := r.chooseDirs(); err != nil {
		return err
	}
	r.reportedApart()
	return r.run(c.Context)
}

// chooseDirs names the directories of the runs; those of --run-dir are in it.
func (r *series) chooseDirs() error {
	above := r.jobs[0].options.runDir
	if above != "" {
		if _, err := r.jobs[0].chooseRunDir(); err != nil {
			return err
		}
	}
	for i, j := range r.jobs {
		if above != "" {
			j.options.runDir = filepath.Join(above, fmt.Sprintf("%d-%s", i+1, j.options.Name))
		}
		choose := j.chooseRunDir
		if without := r.bases[i]; without != nil {
			choose = func() (string, error) { return j.chooseBoth(without) }
		}
		dir, err := choose()
		if err != nil {
			return err
		}
		r.dirs = append(r.dirs, dir)
	}
	return nil
}

// reportedApart keeps stdout for the comparison: what a run says goes to stderr.
func (r *series) reportedApart() {
	aside := *r.state
	aside.stdout = r.stderr
	for _, j := range r.jobs {
		r.format, r.output = j.options.format, j.options.output
		j.options.format, j.options.output = formatDefault, ""
		j.state = &aside
	}
}

// run runs all, unless an interrupt ends it, and shows the comparison. The worst of the
// runs decides the exit code.
func (r *series) run(ctx context.Context) error {
	worst := exitOK
	entries := make([]results.Entry, len(r.jobs))
	for i, j := range r.jobs {
		var code int
		entries[i], code = r.one(ctx, i, j)
		worst = worse(worst, code)
	}
	if err := r.compare(results.Compare(entries), r.format, r.output); err != nil {
		return err
	}
	return exitWith(worst)
}

// one is the run of a job, and its exit code.
func (r *series) one(ctx context.Context, i int, j *job) (results.Entry, int) {
	config := j.Eval.Config
	entry := results.Entry{Outline: results.Outline{EvalName: j.Eval.Name, Agent: config.Executor, Model: config.Model, Isolated: j.options.Isolated}}
	if ctx.Err() != nil {
		entry.Error = "interrupted before it began"
		return entry, exitInfra
	}
	fmt.Fprintf(r.stderr, "run %d of %d: %s\n", i+1, len(r.jobs), strings.TrimSpace(config.Executor+" "+config.Model))
	code := exitOK
	var exit *exitError
	run := j.run
	if without := r.bases[i]; without != nil {
		run = func(ctx context.Context, dir string) error { return j.runAfter(ctx, without, dir) }
	}
	if err := run(ctx, r.dirs[i]); errors.As(err, &exit) {
		code = exit.code
		if exit.err != nil {
			r.complain(exit.err)
			entry.Error = firstLine(exit.Error())
		}
	}
	read, err := runner.ReadEntry(r.dirs[i])
	switch {
	case err == nil:
		read.Error = entry.Error
		return read, code
	case entry.Error == "":
		entry.Error = firstLine(err.Error())
	}
	return entry, code
}

func firstLine(s string) string {
	return text.Inert(text.FirstLine(s))
}

// worse is the exit code that says more of what went wrong.
func worse(a, b int) int {
	for _, code := range []int{exitUsage, exitInfra, exitFailed} {
		if a == code || b == code {
			return code
		}
	}
	return exitOK
}

// runPaired runs the eval without skills, then with them, and says what they change. The
// run with skills is the one that the command line is about; the other one's directory is
// beside it, and what it says goes to stderr.
func (j *job) runPaired(c *cli.Context) error {
	if !j.hasSkills() {
		if c.Bool("dry-run") {
			return j.dryRun()
		}
		return j.runNew(c.Context)
	}
	if j.options.keep {
		return usage("--keep keeps one sandbox and this would be two runs; leave out the baseline")
	}
	without, err := j.withoutSkills(c)
	if err != nil {
		return err
	}
	if c.Bool("dry-run") {
		return errors.Join(j.dryRun(), without.dryRun())
	}
	dir, err := j.chooseBoth(without)
	if err != nil {
		return err
	}
	return j.runAfter(c.Context, without, dir)
}

// hasSkills reports whether there is anything to compare, and says where there is not.
func (j *job) hasSkills() bool {
	has := slices.ContainsFunc(j.Trials, func(t *plan.Trial) bool { return len(t.Skills) > 0 })
	if !has {
		fmt.Fprintln(j.stderr, "no task has a skill, so there is nothing to compare; running without a baseline")
	}
	return has
}

// chooseBoth names the directory of the run, and of the one without skills beside it.
func (j *job) chooseBoth(without *job) (dir string, err error) {
	if dir, err = j.chooseRunDir(); err != nil {
		return dir, err
	}
	if j.options.runDir != "" {
		without.options.runDir = dir + "-baseline"
	}
	j.Against, err = without.chooseRunDir()
	return dir, err
}

// runAfter runs without, in the directory against, and then j in dir.
func (j *job) runAfter(ctx context.Context, without *job, dir string) error {
	fmt.Fprintln(j.stderr, "run 1 of 2: without skills")
	if err := without.run(ctx, j.Against); err != nil && !isFailed(err) {
		return err
	}
	if ctx.Err() != nil {
		return infra(errors.New("interrupted before the run with skills began"))
	}
	fmt.Fprintln(j.stderr, "run 2 of 2: with skills")
	return j.run(ctx, dir)
}

// withoutSkills plans the same run without skills. What it says goes to stderr.
func (j *job) withoutSkills(c *cli.Context) (*job, error) {
	aside := *j.state
	aside.stdout = j.stderr
	return runCommand{&aside}.newJob(c, variant{j.options.Executor, j.options.Model}, func(o *runOptions) {
		o.Name, o.NoSkills, o.Baseline = "baseline", true, true
		o.format, o.output = formatDefault, ""
	})
}

// isFailed reports whether a run came to its end and some trials of it did not pass.
func isFailed(err error) bool {
	var exit *exitError
	return errors.As(err, &exit) && exit.code == exitFailed && exit.err == nil
}
