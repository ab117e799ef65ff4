package main

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/report/export"
	"github.com/waza-isolate/waza/runner"
)

// exportCommand is waza export.
func exportCommand(s *state) *cli.Command {
	formats := export.Formats()
	names := make([]format, len(formats))
	for i, f := range formats {
		names[i] = format(f.Name)
	}
	return &cli.Command{
		Name:      "export",
		Usage:     "Write a run in the format of another tool",
		ArgsUsage: "RUN [TASK [N]]",
		Description: "Writes all trials of RUN that have ended, or those of TASK, or trial N of TASK: as trajectories in " +
			"ATIF 1.7, one per line; as CSV with one row per trial; as spans of " +
			"OpenTelemetry in OTLP JSON; or, of a whole run, what its servers did and listed that is worth a look, " +
			"as SARIF 2.1.0. TASK/N is the same as TASK N. RUN is a run directory, or latest.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "format", Aliases: []string{"f"}, Usage: "Write in `FORMAT`: " + either(names), Action: mustBeOneOf("format", names)},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "Write to `FILE`", DefaultText: "stdout"},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := takes(c, 1, 3, "a run directory, and the trials to export"); err != nil {
				return err
			}
			at := slices.Index(names, formatOf(c))
			if at < 0 {
				return usage("give --format: %s", either(names))
			}
			dir, err := runNamed(c.Args().First())
			if err != nil {
				return err
			}
			if formats[at].Whole && c.NArg() > 1 {
				return usage("--format %s exports a whole run: leave out the task", names[at])
			}
			run, err := readExport(dir, strings.Join(c.Args().Slice()[1:], "/"))
			if err != nil {
				return err
			}
			run.Content = variables(s.lookup).capturesContent()
			return writeExport(s, run, formats[at], c.String("output"))
		},
	}
}

// readExport reads the run in a directory, with the trials that which selects; all for "".
func readExport(dir, which string) (run export.Run, err error) {
	record, err := runner.ReadRecord(dir)
	if err != nil {
		return run, usage("%w", err)
	}
	if run.Trials, err = trialsNamed(dir, which); err != nil {
		return run, withExitCode(err)
	}
	if len(run.Trials) == 0 && which != "" {
		return run, noTrial(dir, which)
	}
	if run.Run, err = runner.ViewOf(dir, record); err != nil {
		return run, withExitCode(err)
	}
	return run, nil
}

func writeExport(s *state, run export.Run, f export.Format, file string) error {
	to := func(w io.Writer) error { return f.Write(w, run) }
	if file != "" {
		return writeTo(file, to)
	}
	return withExitCode(to(s.stdout))
}
