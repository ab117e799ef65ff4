package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report"
	"github.com/waza-isolate/waza/report/markdown"
	"github.com/waza-isolate/waza/results"
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
		j.epilogue(dir, record, summary, done)
	}
	switch {
	case runErr != nil:
		return &exitError{exitInfra, errors.Join(runErr, shown)}
	case shown != nil:
		return shown
	}
	return exitWith(record.ExitCode(summary))
}

// narrations says where agents tell of calls otherwise than they were.
func (s *state) narrations(summary results.Results) {
	for _, line := range summary.Narrations() {
		fmt.Fprintln(s.stdout, indented(line))
	}
}

// attemptsBefore says what came before the attempt that counts; empty for nothing.
func attemptsBefore(r runner.Result) string {
	if len(r.Earlier) == 0 {
		return ""
	}
	said := func(reason evidence.Reason, message string) string {
		return strings.TrimPrefix(fmt.Sprintf("%s: %s", reason, printable(text.FirstLine(message))), ": ")
	}
	var why, ends []string
	for _, attempt := range r.Earlier {
		why, ends = append(why, said(attempt.Reason, attempt.Message)), append(ends, string(attempt.Class))
	}
	if why = slices.Compact(why); len(why) == 1 && why[0] == said(r.Verdicts.Reason, r.Verdicts.Message) {
		why = []string{"for the same reason"}
	}
	slices.Sort(ends)
	return fmt.Sprintf("%s/%d %s after %d attempt(s) that ended as %s: %s",
		r.Trial.Task, r.Trial.Number, r.Verdicts.Class, len(r.Earlier), strings.Join(slices.Compact(ends), " and "), strings.Join(why, "; "))
}

// serversEnds says which servers ended before they were asked to, and how, and which
// described tools in another way in the course of a trial.
func serversEnds(summary results.Results) []string {
	var lines []string
	for _, task := range summary.Tasks {
		for _, run := range task.Runs {
			for _, c := range run.Commands {
				if c.ResponseIndex < 0 {
					lines = append(lines, fmt.Sprintf("%s/%d mock of command %q: no response matches %q", task.TestID, run.RunNumber, c.Command, c.Args))
				}
			}
			for _, server := range run.Servers {
				for _, call := range server.Unmatched {
					lines = append(lines, fmt.Sprintf("%s/%d mock server %q: %s", task.TestID, run.RunNumber, server.Name, indented(call)))
				}
				for _, end := range server.Ends {
					lines = append(lines, fmt.Sprintf("%s/%d server %q: %s", task.TestID, run.RunNumber, server.Name, indented(end)))
				}
				for _, pin := range server.Unpinned {
					lines = append(lines, fmt.Sprintf("%s/%d server %q: %s", task.TestID, run.RunNumber, server.Name, indented(pin)))
				}
				for _, pull := range server.RugPulls {
					lines = append(lines, fmt.Sprintf("%s/%d server %q: rug_pull: %s", task.TestID, run.RunNumber, server.Name, indented(pull)))
				}
			}
		}
	}
	return lines
}

// lostServers says which servers that the run shares died, and which trials were
// at work.
func lostServers(done []runner.Result) []string {
	trials := map[string][]string{}
	for _, r := range done {
		for _, attempt := range append(slices.Clone(r.Earlier), r.Trial) {
			for _, s := range attempt.Shared {
				if s.Died != "" {
					lost := fmt.Sprintf("server %q, which the run shares, died (%s) while these trials were at work", s.Name, s.Died)
					trials[lost] = append(trials[lost], fmt.Sprintf("%s/%d", attempt.Task, attempt.Number))
				}
			}
		}
	}
	var lines []string
	for _, lost := range slices.Sorted(maps.Keys(trials)) {
		lines = append(lines, lost+": "+strings.Join(trials[lost], ", "))
	}
	return lines
}

// showAs is show for a command line, which may want no table.
func (s *state) showAs(run report.Run, o runOptions) error {
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
func (s *state) show(run report.Run, f format, file string) error {
	if err := saveResults(run.Dir, file); err != nil {
		return err
	}
	switch f {
	case formatJSON:
		return s.printJSON(func(w io.Writer) error { return writeOut(w, run.Dir) })
	case formatGitHub:
		return markdown.Comment(s.stdout, run)
	}
	return run.Results.Table(s.stdout, width(s.stdout))
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
