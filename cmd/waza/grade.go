package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/redact"
)

func (s *state) gradeCommand() *cli.Command {
	return &cli.Command{
		Name:         "grade",
		Usage:        "grade a run again from its evidence",
		ArgsUsage:    "RUN",
		Description:  "Repeats every verdict from the run directory alone: no engine, no agent, no server, and\nno judge: its answers are on record. --judge asks it what no readable answer is on\nrecord for, --judge-again everything anew, with the key that the run was made with.",
		OnUsageError: usageError,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "judge", Usage: "ask the judge what it has not answered"},
			&cli.BoolFlag{Name: "judge-again", Usage: "ask the judge everything anew; what it answered before stays on record and counts no more"},
			outputFlag(), formatFlag(formatDefault, formatJSON, formatGitHub),
		},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usage("grade takes one run directory; see waza grade --help")
			}
			format, err := formatOf(c, formatDefault, formatJSON, formatGitHub)
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
			if err := s.askJudges(c, record, dir); err != nil {
				return infra(err)
			}
			if err := runner.Regrade(dir); err != nil {
				return &exitError{exitInfra, err}
			}
			summary, err := runner.Summarise(dir, record)
			if err != nil {
				return &exitError{exitInfra, err}
			}
			reported := errors.Join(record.Report(dir, summary), record.Reseal(dir))
			if err := s.show(record.Shown(dir, summary), format, c.String("output")); err != nil {
				return err
			}
			if reported != nil {
				return &exitError{exitInfra, reported}
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

// askJudges asks the judges of a run what the command line says.
func (s *state) askJudges(c *cli.Context, record runner.Record, dir string) error {
	if !c.Bool("judge") && !c.Bool("judge-again") {
		return nil
	}
	held, err := runner.Hold(dir)
	if err != nil {
		return alive(err)
	}
	defer func() { _ = held.Close() }()
	consulting := newJudges(s, &redact.Set{}).consulting()
	consulting.Again = c.Bool("judge-again")
	put, err := record.Consult(c.Context, dir, consulting)
	fmt.Fprintf(s.stderr, "questions put to the judge: %d\n", put)
	return err
}

// warnOfChanges names evidence that is not what the run left.
func (s *state) warnOfChanges(record runner.Record, dir string) error {
	changed, err := record.Changed(dir)
	for _, name := range changed {
		fmt.Fprintf(s.stderr, "warning: %s was changed after the run\n", printable(name))
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
