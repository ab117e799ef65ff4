package main

import (
	"context"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/runner"
)

// gradeCommand is waza grade.
func gradeCommand(s *state) *cli.Command {
	return &cli.Command{
		Name:      "grade",
		Usage:     "Grade a run again from its evidence",
		ArgsUsage: "RUN",
		Description: "Repeats every verdict from the run directory alone, with the recorded answers of judges: no engine, " +
			"agent, server or model is needed. --judge asks a judge what has no recorded answer, --judge-again " +
			"everything; both use the key that the run was made with. Graders are those that the run recorded: to " +
			"judge by changed ones, run the eval again.\n\n" +
			"A run may come from a stranger: if its record names an endpoint other than OpenAI's, or another " +
			"variable for the key, --judge-url and --judge-key-env must name it too.",
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "judge", Usage: "Ask the judge the questions that have no recorded answer"},
			&cli.BoolFlag{Name: "judge-again", Usage: "Ask the judge all questions again; earlier answers are kept but no longer count"},
			&cli.StringFlag{Name: "update-snapshots", Usage: "Overwrite the snapshots of `EVAL`'s diff graders with what the run produced"},
			outputFlag(), formatFlag(formatDefault, formatJSON, formatGitHub),
		}, judgeFlags("--judge or --judge-again")...),
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := takes(c, 1, 1, "one run directory"); err != nil {
				return err
			}
			if !asksJudges(c) && (c.IsSet(judgeURL) || c.IsSet(judgeKeyEnv)) {
				return usage("--%s and --%s are about asking the judge: give --judge or --judge-again too", judgeURL, judgeKeyEnv)
			}
			dir, err := runNamed(c.Args().First())
			if err != nil {
				return err
			}
			out, err := runner.Regrade(ctx, runner.Regrading{
				Dir: dir, Ask: asksJudges(c), Again: c.Bool("judge-again"), Snapshots: c.String("update-snapshots"),
				Host: s.hostOfRecorded(c, normal),
			})
			if out.Dir == "" {
				return withExitCode(err)
			}
			return printGraded(s, out, err, formatOf(c), c.String("output"))
		},
	}
}

// printGraded prints the outcome of grading a run, and returns err and the exit code of the run.
func printGraded(s *state, out runner.Outcome, err error, f format, file string) error {
	if err := s.workflow.add(out); err != nil {
		s.warn(err)
	}
	if err := s.show(out.View(), f, file); err != nil {
		return err
	}
	if err != nil {
		return withExitCode(err)
	}
	if f == formatDefault {
		s.epilogue(out.View(), normal)
	}
	return exitWith(out.ExitCode())
}

func asksJudges(c *cli.Command) bool { return c.Bool("judge") || c.Bool("judge-again") }

// exitWith returns an error that exits with code and prints nothing; nil for exitOK.
func exitWith(code int) error {
	if code == exitOK {
		return nil
	}
	return &exitError{code: code}
}

const (
	judgeURL    = "judge-url"
	judgeKeyEnv = "judge-key-env"
)

// judgeFlags returns the flags that confirm which judge may be asked for a recorded run.
func judgeFlags(with string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: judgeURL, Usage: "Trust the judge at `URL` of the recorded run; with " + with},
		&cli.StringFlag{Name: judgeKeyEnv, Usage: "Send the judge the key in environment variable `VARIABLE`; with " + with},
	}
}

// missingJudgeFlags returns the flags that the command line lacks to allow asking a recorded judge, or "".
// Run directories may come from others, so the user must confirm a record with an unusual endpoint, or one
// that sends the value of an unusual variable as a key.
func missingJudgeFlags(j evidence.Judge, url, keyEnv string) (flags string) {
	isKnown, isUsual := false, false
	for _, kind := range eval.ModelKinds() {
		if _, usual := eval.ModelDefaults(kind); j.BaseURL == eval.ChatDefault(kind) {
			isKnown, isUsual = true, j.APIKeyEnv == usual
		}
	}
	if j.BaseURL != url && !isKnown {
		flags = "--" + judgeURL + " " + text.ShellWord(j.BaseURL)
	}
	if j.APIKeyEnv != "" && j.APIKeyEnv != keyEnv && !isUsual {
		flags += " --" + judgeKeyEnv + " " + text.ShellWord(j.APIKeyEnv)
	}
	return strings.TrimSpace(flags)
}
