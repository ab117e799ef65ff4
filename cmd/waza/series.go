package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner"
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
	r.toldApart()
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

// toldApart keeps stdout for the comparison: what a run says goes to stderr.
func (r *series) toldApart() {
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
	ctx, stop := interruptible(ctx, r.stderr)
	defer stop()
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

// slug is v as the name of a directory.
func (v variant) slug() string { return runner.Slug(v.executor+"-"+v.model, 48) }
