package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/cmd/waza/scaffold"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/runner"
)

// checkCommand is waza check.
func checkCommand(s *state) *cli.Command {
	return &cli.Command{
		Name:      "check",
		Usage:     "Check an eval without running it",
		ArgsUsage: "[EVAL.yaml | DIR | SKILL]",
		Description: "Checks eval.yaml in the current directory, all evals of the project, or the one that is named. " +
			"Errors are all mistakes for which a run would be refused. Warnings are tasks that an idle agent or a " +
			"broken tool passes, keys without effect, servers that are never used, tools that the server does not " +
			"list, by waza.lock or else by what it listed here last, and variables, " +
			"model keys and images that are missing on this machine. Nothing is started or written. The exit " +
			"code is 2 if there are errors.",
		Flags: []cli.Flag{
			isolateFlag("Check for a run with --isolate, or with --no-isolate"),
			&cli.BoolFlag{Name: "strict", Usage: "Exit with code 1 if there are warnings"},
			formatFlag(formatDefault, formatJSON),
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			evals, err := targets(c)
			if err != nil {
				return err
			}
			all := []runner.Checked{}
			for _, path := range evals {
				all = append(all, runner.Check(ctx, runner.Checking{
					Eval: path, Isolated: c.Bool("isolate"), AsWritten: !c.IsSet("isolate"), Unwritten: scaffold.Unwritten,
					Host: s.host(quiet, formatDefault, false),
				}))
			}
			if err := printChecked(s, all, formatOf(c)); err != nil {
				return withExitCode(err)
			}
			errors, warnings := counted(all)
			switch {
			case errors > 0:
				return exitWith(exitUsage)
			case warnings > 0 && c.Bool("strict"):
				return exitWith(exitFailed)
			}
			return nil
		},
	}
}

func counted(all []runner.Checked) (errors, warnings int) {
	for _, c := range all {
		errors += c.Count(runner.SeverityError)
		warnings += c.Count(runner.SeverityWarning)
	}
	return errors, warnings
}

func printChecked(s *state, all []runner.Checked, f format) error {
	errors, warnings := counted(all)
	if f == formatJSON {
		return s.printValue(struct {
			Errors   int              `json:"errors"`
			Warnings int              `json:"warnings"`
			Evals    []runner.Checked `json:"evals"`
		}{errors, warnings, all})
	}
	style := s.styleOf(s.stdout)
	for _, c := range all {
		for _, found := range c.Findings {
			place, paint := found.File, style.Bad
			if found.Line > 0 {
				place = fmt.Sprintf("%s:%d:%d", found.File, found.Line, found.Column)
			}
			if found.Severity == runner.SeverityWarning {
				paint = style.Doubtful
			}
			fmt.Fprintf(s.stdout, "%s: %s: %s\n", text.Inert(place), paint(string(found.Severity)), text.Indented(found.Message))
			if found.Excerpt != "" {
				fmt.Fprintln(s.stdout, text.InertLines(found.Excerpt))
			}
		}
		if c.Name == "" {
			fmt.Fprintf(s.stdout, "%s: %s\n", text.Inert(c.Eval), countsOf(c))
			continue
		}
		fmt.Fprintf(s.stdout, "%s: %s, %s, executor %s: %s\n", text.Inert(c.Eval), text.Count(c.Tasks, "task"), text.Count(len(c.Servers), "server"), text.Inert(c.Executor), countsOf(c))
	}
	if len(all) > 1 {
		fmt.Fprintf(s.stdout, "%s, %s\n", text.Count(errors, "error"), text.Count(warnings, "warning"))
	}
	return nil
}

// countsOf summarizes the number of errors and warnings of an eval.
func countsOf(c runner.Checked) string {
	errors, warnings := c.Count(runner.SeverityError), c.Count(runner.SeverityWarning)
	if errors+warnings == 0 {
		return "nothing is wrong"
	}
	return text.Count(errors, "error") + ", " + text.Count(warnings, "warning")
}
