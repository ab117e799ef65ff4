package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/terminal"
	"github.com/waza-isolate/waza/runner"
)

// job is one waza run.
type job struct {
	*runner.Job
	*state
	options  runOptions
	progress *progress // nil until trials are about to run
}

// dryRun prints the plan of each trial.
func (j *job) dryRun() error {
	for _, t := range j.Trials {
		if _, err := fmt.Fprintln(j.stdout, text.InertLines(j.options.Secrets.String(t.String()))); err != nil {
			return err
		}
	}
	return nil
}

// runNew is run in a directory that the command line names, or a new one.
func (j *job) runNew(ctx context.Context) error {
	dir, err := j.chooseRunDir()
	if err != nil {
		return err
	}
	return j.run(ctx, dir)
}

// run runs the trials in a new or empty directory, and prints what came out.
func (j *job) run(ctx context.Context, dir string) error {
	out, err := runner.Run(ctx, j.Job, dir)
	return j.finish(out, err)
}

// finish prints what came out of a run.
func (j *job) finish(out runner.Outcome, err error) error {
	if out.Dir == "" {
		return infra(err)
	}
	if out.Reported && j.Job != nil {
		err = errors.Join(err, j.export(out.Dir, out.Results))
	}
	shown := j.showAs(out.Shown(), j.options)
	if j.options.format == formatDefault {
		j.epilogue(out)
	}
	switch {
	case err != nil:
		return &exitError{exitInfra, errors.Join(err, shown)}
	case shown != nil:
		return shown
	}
	return exitWith(out.ExitCode())
}

// epilogue says what did not pass and why, and where the evidence is.
func (j *job) epilogue(out runner.Outcome) {
	end := terminal.Ending{Run: out.Shown(), Style: j.styleOf(j.stdout), Resumable: out.Resumable()}
	for _, r := range out.Trials {
		end.Trials = append(end.Trials, ended(r))
	}
	page := filepath.Join(out.Dir, runner.ReportFile)
	if info, err := os.Stat(page); err == nil && info.Mode().IsRegular() {
		end.Report = page
	}
	if j.options.loudness == quiet {
		_ = end.WriteShort(j.stdout)
	} else {
		_ = end.Write(j.stdout)
	}
}

// ended is what is shown of a trial; where its agent ended by itself, with what that said
// last.
func ended(r runner.Result) terminal.Trial {
	t := terminal.Trial{Trial: r.Trial, Verdicts: r.Verdicts, Earlier: r.Earlier}
	if r.Verdicts.Reason == evidence.ReasonExitCode || r.Verdicts.Reason == evidence.ReasonSignal {
		t.LastWords = r.Dir.LastWords()
	}
	return t
}

// chooseRunDir names the run directory, which must be new or empty.
func (j *job) chooseRunDir() (string, error) {
	dir := j.options.runDir
	if dir == "" {
		return filepath.Join(".waza", "runs", j.ID), nil
	}
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0:
		return dir, nil
	case err != nil:
		return dir, usage("run directory: %w", err)
	}
	return dir, usage("run directory %s is not empty; name a new one with --run-dir", dir)
}
