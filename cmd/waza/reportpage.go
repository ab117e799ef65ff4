package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/evidence"
	"github.com/waza-isolate/waza/runner/markdown"
	"github.com/waza-isolate/waza/runner/report"
)

// maxReported is how many runs one report holds.
const maxReported = 32

func (s *state) reportCommand() *cli.Command {
	return &cli.Command{
		Name:      "report",
		Usage:     "write the report of a run, or of several side by side",
		ArgsUsage: "RUN...",
		Description: "Writes report.html and junit.xml into the run directory, from what is there: nothing is\n" +
			"graded again, and the run need not have ended. --output writes the page of HTML elsewhere;\n" +
			"it is needed for several runs, which are shown side by side. --format github-comment prints\n" +
			"a comment for a pull request, and writes nothing.",
		OnUsageError: usageError,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to this `FILE`"},
			formatFlag(formatDefault, formatGitHub),
		},
		Action: func(c *cli.Context) error {
			dirs := c.Args().Slice()
			if len(dirs) == 0 || len(dirs) > maxReported {
				return usage("report takes from 1 to %d run directories; see waza report --help", maxReported)
			}
			format, err := formatOf(c, formatDefault, formatGitHub)
			if err != nil {
				return err
			}
			if format == formatGitHub && len(dirs) > 1 {
				return usage("a comment is of one run; waza compare --format github-comment has several")
			}
			if c.String("output") == "" && len(dirs) > 1 {
				return usage("several runs have one report: name its file with --output")
			}
			return s.report(dirs, c.String("output"), format)
		},
	}
}

func (s *state) report(dirs []string, file string, f format) error {
	var records []runner.Record
	for _, dir := range dirs {
		record, err := runner.ReadRecord(dir)
		if err != nil {
			return usage("%w", err)
		}
		records = append(records, record)
	}
	if file != "" && f == formatDefault {
		if err := evidence.WriteFileBy(file, func(w io.Writer) error { return runner.WriteReport(w, dirs) }); err != nil {
			return infra(err)
		}
		return s.wrote(file)
	}
	dir, record := dirs[0], records[0]
	run, err := runner.Reported(dir, record)
	if err != nil {
		return infra(err)
	}
	if f == formatGitHub {
		return s.comment(run, file)
	}
	if err := errors.Join(record.Report(dir, run.Results), record.Reseal(dir)); err != nil {
		return infra(err)
	}
	return errors.Join(s.wrote(filepath.Join(dir, runner.ReportFile)), s.wrote(filepath.Join(dir, runner.JUnitFile)))
}

func (s *state) wrote(file string) error {
	_, err := fmt.Fprintln(s.stdout, file)
	return err
}

// comment prints a comment on a run, or writes it to a file where one is named.
func (s *state) comment(run report.Run, file string) error {
	write := func(w io.Writer) error { return markdown.Comment(w, run) }
	if file == "" {
		return write(s.stdout)
	}
	if err := evidence.WriteFileBy(file, write); err != nil {
		return infra(err)
	}
	return nil
}
