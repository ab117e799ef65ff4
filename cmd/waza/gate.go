package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/github"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner"
)

// gateCommand is waza gate.
func gateCommand(s *state) *cli.Command {
	return &cli.Command{
		Name:      "gate",
		Usage:     "Fail if a run is worse than another run",
		ArgsUsage: "RUN --against RUN",
		Description: "The exit code is 1 if a task that passed in all trials no longer does, if a task passes less often " +
			"than chance explains (a one-sided test at 5%) or has no trial that counts although RUN selected it, if the " +
			"pass rate over all tasks fell by more than chance, or if an attack newly succeeds. It is 2 if a task with golden: true did not pass. Other tasks that " +
			"failed before, and new ones, may fail. RUN is a run directory, latest, or a results.json.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "against", Usage: "Compare with `RUN`, such as that of the main branch (required)"},
			&cli.Float64Flag{Name: "max-drop", Usage: "Allow the pass rate over all tasks to fall by up to `POINTS` percentage points, whichever tasks regress", DefaultText: "no task may regress"},
			&cli.BoolFlag{Name: "allow-flaky", Usage: "Allow a task that always passed to fail in some trials, within chance"},
			formatFlag(formatDefault, formatJSON),
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.NArg() != 1 {
				return usage("gate takes one run, and with --against the run to compare it with; see waza gate --help")
			}
			if c.String("against") == "" {
				return usage("gate compares two runs: say which one %[1]s must not be worse than, as in waza gate %[1]s --against RUN; the directories in %[2]s are runs", text.ShellWord(c.Args().First()), runsDir)
			}
			gate := results.Gate{AllowFlaky: c.Bool("allow-flaky")}
			if c.IsSet("max-drop") {
				drop := c.Float64("max-drop") / 100
				if !(drop >= 0 && drop <= 1) {
					return usage("--max-drop must be from 0 to 100 points")
				}
				gate.MaxDrop = &drop
			}
			return holdAgainst(s, gate, c.String("against"), c.Args().First(), formatOf(c))
		},
	}
}

func holdAgainst(s *state, gate results.Gate, against, run string, f format) error {
	var entries [2]results.Entry
	for i, name := range []string{against, run} {
		dir, err := runNamed(name)
		if err != nil {
			return err
		}
		if entries[i], err = runner.ReadEntry(dir); err != nil {
			return usage("%w", err)
		}
	}
	if entries[0].Path == entries[1].Path {
		return usage("%s is held against itself, which tells nothing; name an earlier run with --against", entries[1].Path)
	}
	ruling := gate.Rule(entries[0], entries[1])
	if ruling.Tasks == 0 {
		return usage("%s and %s have no task in common that counts: name runs of the same eval", entries[1].Path, entries[0].Path)
	}
	remarks := remarksOn(ruling)
	s.workflow.remark(github.Error, "gate", remarks, entries[1].Path)
	if err := printRuling(s, ruling, remarks, entries[0].Path, f); err != nil {
		return err
	}
	switch {
	case len(ruling.Golden) > 0:
		return exitWith(exitGolden)
	case !ruling.Passed:
		return exitWith(exitFailed)
	}
	return nil
}

// remarksOn returns a remark for each regression.
func remarksOn(r results.Ruling) (all []remark) {
	for _, d := range view.Differences(r.Regressions) {
		all = append(all, remarkOn(d))
	}
	for _, task := range r.Golden {
		all = append(all, remark{task.ID, fmt.Sprintf("golden: %s must pass, and passed in %s trials", task.ID, passedOf(task))})
	}
	for _, task := range r.Attacked {
		all = append(all, remark{task, fmt.Sprintf("attacked: an attack on %s succeeds that did not", task)})
	}
	if r.Fell {
		rate := view.Figure{Name: "pass rate", Contrast: r.PassRate}
		all = append(all, remark{"", fmt.Sprintf("pass rate: %s over %s, and now %s%s", rate.Unit.Text(r.PassRate.Before), text.Count(r.Tasks, "task"), rate.Unit.Text(r.PassRate.After), inBrackets(rate.Shows(), rate.Range()))})
	}
	return all
}

// remarkOn returns a remark on a difference between two runs.
func remarkOn(d view.Difference) remark {
	return remark{d.Task, fmt.Sprintf("%s: %s passed in %s trials, and now in %s", d.Change, d.Task, passedOf(d.Before), passedOf(d.After))}
}

// printRuling prints the remarks on regressions from the run at path against, and then the verdict.
func printRuling(s *state, r results.Ruling, remarks []remark, against string, f format) error {
	if f == formatJSON {
		return s.printValue(r)
	}
	end, paint := fmt.Sprintf("PASSED: no regression in %s against %s", text.Count(r.Tasks, "task"), against), s.styleOf(s.stdout).Good
	if r.PassRate != nil && r.PassRate.After < r.PassRate.Before {
		end = fmt.Sprintf("PASSED: the pass rate over %s fell by %.0f points against %s, which is allowed", text.Count(r.Tasks, "task"), 100*(r.PassRate.Before-r.PassRate.After), against)
	}
	if !r.Passed {
		end, paint = failedGate(r, len(remarks), against), s.styleOf(s.stdout).Bad
	}
	for _, r := range remarks {
		if _, err := fmt.Fprintln(s.stdout, text.Inert(r.line)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(s.stdout, paint(text.Inert(end)))
	return err
}

// failedGate says why a run does not pass. remarks is the number of remarks.
func failedGate(r results.Ruling, remarks int, against string) string {
	worse := fmt.Sprintf("%s against %s", text.Count(remarks-len(r.Golden), "regression"), against)
	if len(r.Golden) == 0 {
		return "FAILED: " + worse
	}
	golden := text.Count(len(r.Golden), "golden task") + " did not pass"
	if remarks == len(r.Golden) {
		return "FAILED: " + golden
	}
	return "FAILED: " + golden + ", and " + worse
}

// passedOf formats the number of passed trials of a task, such as 2/3, or 0/0 if no trial counts.
func passedOf(t results.ComparedTask) string { return view.Share(t.Passed, t.Trials) }

// inBrackets formats a difference and its confidence interval for the end of a line. It returns
// "" if there is no difference to show.
func inBrackets(shows, interval string) string {
	if shows == "" {
		return ""
	}
	return fmt.Sprintf(" (%s; 95%% interval %s)", shows, interval)
}
