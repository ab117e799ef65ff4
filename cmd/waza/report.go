package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/report/github"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/sandbox"
)

// reportCommand is waza report.
func reportCommand(s *state) *cli.Command {
	return &cli.Command{
		Name:      "report",
		Usage:     "Write the report of a run, or of several runs side by side",
		ArgsUsage: "RUN...",
		Description: "Writes report.html and junit.xml into the run directory without grading again; the run may have " +
			"ended early. --output writes the HTML page to another file, which is required for a run that is " +
			"still going on and for several runs. --format github-comment prints a comment for a pull request, " +
			"and --format json prints what results.json has of the trials that have ended; neither writes a report.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "Write the HTML page to `FILE`"},
			formatFlag(formatDefault, formatJSON, formatGitHub),
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := takes(c, 1, anyNumber, "run directories"); err != nil {
				return err
			}
			dirs, err := runsNamed(c.Args().Slice())
			if err != nil {
				return err
			}
			if f := formatOf(c); f != formatDefault && len(dirs) > 1 {
				return usage("--format %s takes a single run; use waza compare --format %s for several", f, f)
			}
			if c.String("output") == "" && len(dirs) > 1 {
				return usage("a report of several runs needs a file: name it with --output")
			}
			return writeReport(s, dirs, c.String("output"), formatOf(c))
		},
	}
}

func writeReport(s *state, dirs []string, file string, f format) error {
	if file == "" && f == formatDefault {
		return reportInto(s, dirs[0])
	}
	if err := checkDistinct(dirs); err != nil {
		return err
	}
	var records []runner.Record
	for _, dir := range dirs {
		record, err := runner.ReadRecord(dir)
		if err != nil {
			return usage("%w", err)
		}
		runner.WarnOfGone(dir, record, s.warn)
		records = append(records, record)
	}
	if f == formatDefault {
		if err := writeTo(file, func(w io.Writer) error { return runner.WriteReport(w, dirs) }); err != nil {
			return err
		}
		return printPath(s, file)
	}
	run, err := runner.ViewOf(dirs[0], records[0])
	if err != nil {
		return withExitCode(err)
	}
	write := func(w io.Writer) error { return github.Comment(w, run) }
	if f == formatJSON {
		write = func(w io.Writer) error { return runner.PrintResults(w, run.Dir, run.Results) }
	}
	if file == "" {
		return write(s.stdout)
	}
	return writeTo(file, write)
}

// reportInto writes the reports of the run in dir into it, and prints their paths.
func reportInto(s *state, dir string) error {
	const elsewhere = "--output writes its page elsewhere"
	err := runner.ReportInto(dir, s.warn)
	switch {
	case err == nil:
		return errors.Join(printPath(s, filepath.Join(dir, runner.ReportFile)), printPath(s, filepath.Join(dir, runner.JUnitFile)))
	case errors.Is(err, sandbox.ErrAlive):
		return usage("%w: %s", err, elsewhere)
	case !errors.As(err, new(runner.Mistake)) && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)):
		return usage("%s cannot be written to: %s", dir, elsewhere)
	}
	return withExitCode(err)
}

// checkDistinct returns an error if two of dirs are the same directory.
func checkDistinct(dirs []string) error {
	var before []fs.FileInfo
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil {
			continue // an error is reported when the run is read
		}
		if at := slices.IndexFunc(before, func(b fs.FileInfo) bool { return os.SameFile(b, info) }); at >= 0 {
			return usage("%s is named twice: a report has each run once", dir)
		}
		before = append(before, info)
	}
	return nil
}

// writeTo writes the file of --output. Errors of opening it are usage errors.
func writeTo(file string, write func(io.Writer) error) error {
	err := writeNamed(file, write)
	if place := (*fs.PathError)(nil); errors.As(err, &place) && place.Path == file {
		return usage("--output: %w", place)
	}
	return withExitCode(err)
}

// writeNamed writes a file that the user named. If the file cannot be created, the error is a [fs.PathError]
// with that name.
func writeNamed(file string, write func(io.Writer) error) error {
	at := files.NamedFile(file)
	err := evidence.WriteFileBy(at, write)
	if place := (*fs.PathError)(nil); errors.As(err, &place) && place.Path == at {
		place.Path = file
	}
	return err
}

func printPath(s *state, file string) error {
	_, err := fmt.Fprintln(s.stdout, file)
	return err
}
