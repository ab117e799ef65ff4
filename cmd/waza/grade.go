package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/runner"
)

func (s *state) gradeCommand() *cli.Command {
	return &cli.Command{
		Name:         "grade",
		Usage:        "grade a run again from its evidence",
		ArgsUsage:    "RUN",
		Description:  "Repeats every verdict from the run directory alone: no engine, no agent, no server.",
		OnUsageError: usageError,
		Flags:        []cli.Flag{outputFlag(), formatFlag()},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usage("grade takes one run directory; see waza grade --help")
			}
			format, err := formatOf(c)
			if err != nil {
				return err
			}
			dir := c.Args().First()
			record, err := runner.ReadRecord(dir)
			if err != nil {
				return usage("%w", err)
			}
			if err := s.warnOfChanges(record, dir); err != nil {
				return &exitError{exitInfra, err}
			}
			if err := runner.Regrade(dir); err != nil {
				return &exitError{exitInfra, err}
			}
			summary, err := runner.Summarise(dir, record)
			if err != nil {
				return &exitError{exitInfra, err}
			}
			if err := record.Reseal(dir); err != nil {
				return &exitError{exitInfra, err}
			}
			if err := s.show(summary, format, c.String("output")); err != nil {
				return err
			}
			if format == formatDefault {
				fmt.Fprintln(s.stdout)
				s.narrations(summary)
				fmt.Fprintf(s.stdout, "run directory: %s\n", dir)
			}
			return exitWith(record.ExitCode(summary))
		},
	}
}

// warnOfChanges names evidence that is not what the run left.
func (s *state) warnOfChanges(record runner.Record, dir string) error {
	changed, err := record.Changed(dir)
	for _, name := range changed {
		fmt.Fprintf(s.stderr, "warning: %s was changed after the run\n", name)
	}
	return err
}

// exitWith is the silent error that leads to an exit code.
func exitWith(code int) error {
	if code == exitOK {
		return nil
	}
	return &exitError{code: code}
}
