package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/runner/plan"
)

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
	ctx, stop := interruptible(c.Context, j.stderr)
	defer stop()
	return j.runAfter(ctx, without, dir)
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
	return aside.newJob(c, variant{j.options.Executor, j.options.Model}, func(o *runOptions) {
		o.Name, o.NoSkills, o.Baseline = "baseline", true, true
		o.format, o.output = formatDefault, ""
	})
}

// isFailed reports whether a run came to its end and some trials of it did not pass.
func isFailed(err error) bool {
	var exit *exitError
	return errors.As(err, &exit) && exit.code == exitFailed && exit.err == nil
}
