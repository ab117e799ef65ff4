package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/markdown"
	"github.com/waza-isolate/waza/report/terminal"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/runner"
)

// finish writes the results, seals the run directory and prints what came out.
func (j *job) finish(ctx context.Context, dir string, record runner.Record, done []runner.Result, runErr error) error {
	record.Ended = j.clock.Now()
	record.Interrupted = ctx.Err() != nil && len(done) < record.Planned()
	if len(done) > 0 {
		record.Guarantees = done[0].Trial.Guarantees
	}
	summary, err := runner.Summarise(dir, record)
	var shown error
	if err == nil {
		err = errors.Join(record.Report(dir, summary), record.Seal(dir))
		if err == nil {
			err = j.export(dir, summary)
		}
		shown = j.showAs(record.Shown(dir, summary), j.options)
	}
	runErr = errors.Join(runErr, err)
	if j.options.format == formatDefault {
		j.epilogue(record, record.Shown(dir, summary), done)
	}
	switch {
	case runErr != nil:
		return &exitError{exitInfra, errors.Join(runErr, shown)}
	case shown != nil:
		return shown
	}
	return exitWith(record.ExitCode(summary))
}

// epilogue says what did not pass and why, and where the evidence is.
func (j *job) epilogue(record runner.Record, run view.Run, done []runner.Result) {
	end := terminal.Ending{Run: run, Style: j.styleOf(j.stdout), Resumable: isResumable(record, done)}
	for _, r := range done {
		end.Trials = append(end.Trials, ended(r))
	}
	page := filepath.Join(run.Dir, runner.ReportFile)
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

// showAs is show for a command line, which may want no table.
func (s *state) showAs(run view.Run, o runOptions) error {
	if o.loudness == quiet && o.format == formatDefault {
		return saveResults(run.Dir, o.output)
	}
	return s.show(run, o.format, o.output)
}

// saveResults copies the results of the run in dir to a file; to none without a name.
func saveResults(dir, file string) error {
	if file == "" {
		return nil
	}
	err := evidence.WriteFileBy(file, func(w io.Writer) error { return writeOut(w, dir) })
	if err != nil {
		return usage("--output: %w", err)
	}
	return nil
}

// show prints the results of a run in the wanted format, and copies them to a file where
// one is named.
func (s *state) show(run view.Run, f format, file string) error {
	if err := saveResults(run.Dir, file); err != nil {
		return err
	}
	switch f {
	case formatJSON:
		return s.printJSON(func(w io.Writer) error { return writeOut(w, run.Dir) })
	case formatGitHub:
		return markdown.Comment(s.stdout, run)
	}
	return terminal.Run(s.stdout, run.Results, width(s.stdout))
}

func writeOut(w io.Writer, dir string) error {
	file, err := evidence.Open(dir, runner.ResultsFile)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	_, err = io.Copy(w, file)
	return err
}
