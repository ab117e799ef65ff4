package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/terminal"
	"github.com/waza-isolate/waza/runner"
)

// gradeCommand is waza grade.
type gradeCommand struct{ *state }

func (s gradeCommand) command() *cli.Command {
	return &cli.Command{
		Name:         "grade",
		Usage:        "grade a run again from its evidence",
		ArgsUsage:    "RUN",
		Description:  "Repeats every verdict from the run directory alone: no engine, no agent, no server, and\nno judge: its answers are on record. --judge asks it what no readable answer is on\nrecord for, --judge-again everything anew, with the key that the run was made with.\nWhere the record names another endpoint than OpenAI's, or another variable, --judge-url and\n--judge-key-env have to name it too: a run may be a stranger's.",
		OnUsageError: usageError,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "judge", Usage: "ask the judge what it has not answered"},
			&cli.BoolFlag{Name: "judge-again", Usage: "ask the judge everything anew; what it answered before stays on record and counts no more"},
			&cli.StringFlag{Name: "update-snapshots", Usage: "write what the run left over the snapshots that diff graders of this `EVAL` compare with"},
			outputFlag(), formatFlag(formatDefault, formatJSON, formatGitHub),
		}, judgeFlags("--judge or --judge-again")...),
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usage("grade takes one run directory; see waza grade --help")
			}
			format, err := formatOf(c, formatDefault, formatJSON, formatGitHub)
			if err != nil {
				return err
			}
			if !asksJudges(c) && (c.IsSet(judgeURL) || c.IsSet(judgeKeyEnv)) {
				return usage("--%s and --%s are about asking the judge: give --judge or --judge-again too", judgeURL, judgeKeyEnv)
			}
			dir := c.Args().First()
			record, held, err := takeRun(dir)
			if err != nil {
				return err
			}
			defer func() { _ = held.Close() }()
			if err := s.warnOfChanges(record, dir); err != nil {
				return infra(err)
			}
			if err := s.askJudges(c, record, dir); err != nil {
				return infra(err)
			}
			if err := s.updateSnapshots(c.String("update-snapshots"), record, dir); err != nil {
				return err
			}
			if err := runner.Regrade(dir); err != nil {
				return infra(err)
			}
			summary, err := runner.Summarise(dir, record)
			if err != nil {
				return infra(err)
			}
			reported := errors.Join(record.Report(dir, summary), record.Reseal(dir))
			if err := s.show(record.Shown(dir, summary), format, c.String("output")); err != nil {
				return err
			}
			if reported != nil {
				return infra(reported)
			}
			if format == formatDefault {
				fmt.Fprintln(s.stdout)
				for _, line := range terminal.Narrations(summary) {
					fmt.Fprintln(s.stdout, line)
				}
				fmt.Fprintf(s.stdout, "run directory: %s\n", dir)
			}
			return exitWith(record.ExitCode(summary))
		},
	}
}

// askJudges asks the judges of a run what the command line says.
func (s gradeCommand) askJudges(c *cli.Context, record runner.Record, dir string) error {
	if !asksJudges(c) {
		return nil
	}
	consulting := s.consulting(c)
	consulting.Again = c.Bool("judge-again")
	put, err := record.Consult(c.Context, dir, consulting)
	fmt.Fprintf(s.stderr, "questions put to the judge: %d\n", put)
	return err
}

// updateSnapshots writes the snapshots of an eval, if any, of what a run of it left. The run
// may be a stranger's, so it does not say where the eval is.
func (s gradeCommand) updateSnapshots(path string, record runner.Record, dir string) error {
	if path == "" {
		return nil
	}
	e, tasks, err := eval.Load(path, eval.Options{
		CheckScript: checkScript, CheckModelScript: checkModelScript, Local: !record.Isolated,
		Executor: record.Executor, Model: record.Model, NoSkills: true, UpdateSnapshots: true,
	})
	if err != nil {
		return &exitError{exitUsage, err}
	}
	s.warnOnce(e.Warnings)
	if e.Name != record.Eval.Name {
		return usage("the run is of the eval %q, and %s is the eval %q", record.Eval.Name, path, e.Name)
	}
	snapshots := runner.NewSnapshots(e, tasks, func(said string) { fmt.Fprintln(s.stderr, text.Inert(said)) })
	if err := record.UpdateSnapshots(dir, snapshots); err != nil {
		return infra(err)
	}
	return nil
}

func asksJudges(c *cli.Context) bool { return c.Bool("judge") || c.Bool("judge-again") }

// takeRun is the record of the ended run in dir, which is held for what is to be written
// into it until held is closed. A run that has lost all its trials is refused: what would
// be written of it is less than what is there.
func takeRun(dir string) (record runner.Record, held io.Closer, err error) {
	if _, err := runner.ReadRecord(dir); err != nil {
		return record, nil, usage("%w", err)
	}
	held, err = runner.Hold(dir)
	if err != nil {
		return record, nil, infra(err)
	}
	record, err = runner.ReadRecord(dir) // as it is now that nobody else writes to it
	if err != nil {
		return record, nil, errors.Join(usage("%w", err), held.Close())
	}
	emptied, err := record.Emptied(dir)
	if emptied {
		err = usage("%s: no trial of the run is there any more, and its results stay as they are", dir)
	}
	if err != nil {
		return record, nil, errors.Join(err, held.Close())
	}
	return record, held, nil
}

// warnOfChanges names evidence that is not what the run left.
func (s gradeCommand) warnOfChanges(record runner.Record, dir string) error {
	s.warnOfGone(record, dir)
	changed, err := record.Changed(dir)
	for _, name := range changed {
		fmt.Fprintf(s.stderr, "warning: %s was changed after the run\n", text.Inert(name))
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
