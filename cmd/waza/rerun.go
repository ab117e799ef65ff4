package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/runner"
)

// rerunCommand is waza rerun.
func rerunCommand(s *state) *cli.Command {
	return &cli.Command{
		Name:      "rerun",
		Usage:     "Run tasks of an earlier run again, with its options",
		ArgsUsage: "RUN [EVAL]",
		Description: "Runs the eval of RUN (a run directory, or latest) as its files are now, with the options of RUN, " +
			"in a new run directory. RUN is not changed: the new run copies its trials of all other tasks, so that " +
			"results, reports and latest have every task; its run.json names them as kept. They are not run or judged again, " +
			"whatever has changed in the eval, its files or images since: waza compare RUN latest says what differs. " +
			"Nothing is kept of a task that has not ended, or if the agent, the model, the judge's model, the number of trials, " +
			"--allow-weak or the name of the eval differs.\n\n" +
			"EVAL is the path of the eval if it was moved. To complete a run that ended early, use waza run --resume.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "failed", Usage: "Run only tasks with a trial that did not pass"},
			&cli.StringSliceFlag{Name: "task", Aliases: []string{"t"}, Usage: "Run only tasks whose id or name matches `GLOB` (repeatable)"},
			trialsFlag("as RUN"),
			&cli.BoolFlag{Name: "keep", Usage: "Keep the sandbox of the trial until Ctrl-C; for a single trial"},
			&cli.BoolFlag{Name: "allow-host-hooks", Usage: "Allow hooks with host: true to run on this machine"},
			allowWeakFlag("Run", ""), allowEnvFlag(), offlineFlag(),
			&cli.StringFlag{Name: "run-dir", Usage: "Write the run to the new directory `DIR` (default: .waza/runs/<time>-<name>-<random>)"},
			outputFlag(),
			&cli.BoolFlag{Name: "v", Aliases: []string{"verbose"}, Usage: "Print servers' stderr, and each trial as it ends"},
			&cli.BoolFlag{Name: "q", Aliases: []string{"quiet"}, Usage: "Print only failed trials and the verdict"},
			formatFlag(formatDefault, formatJSON, formatGitHub),
		},
		Before: reach,
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := takes(c, 1, 2, "one run directory, and optionally an eval"); err != nil {
				return err
			}
			return rerun(ctx, s, c, c.String("run-dir"), c.String("output"), func(*runner.Request) {})
		},
	}
}

// rerun repeats the run that a command line names. The new run has the directory to, and a request modified
// by change. A copy of results.json is written to output, if that is not empty.
func rerun(ctx context.Context, s *state, c *cli.Command, to, output string, change func(*runner.Request)) error {
	dir, err := runNamed(c.Args().First())
	if err != nil {
		return err
	}
	s = withRun(s, c, c.Args().First(), c.Args().Get(1))
	record, err := runner.ReadRecord(dir)
	if err != nil {
		return usage("%w", err)
	}
	if err := handOverFor(s, record); err != nil {
		return err
	}
	o := runOptions{evals: 1, variants: []runner.Variant{{Executor: record.Executor, Model: record.Model}}}
	if o.out, o.Pace, err = readOutputAndPace(s, c, output); err != nil {
		return err
	}
	var ids []string
	for _, t := range record.Tasks {
		ids = append(ids, t.ID)
	}
	if c.Bool("failed") {
		if ids, err = record.NotPassed(dir); err != nil {
			return withExitCode(err)
		}
		if len(ids) == 0 {
			s.printStatus("every task of " + dir + " passed; there is nothing to run again")
			return nil
		}
	}
	path := c.Args().Get(1)
	if path != "" {
		if path, err = evalNamed(path); err != nil {
			return err
		}
	} else if path = record.EvalPath(); isBelow(dir, path) {
		return usage("%s says that its eval is %s, in the run directory itself; name the eval to run", dir, path)
	}
	how := "without isolation"
	if record.Isolated {
		how = "with --isolate"
	}
	which := text.Count(len(ids), "task")
	if c.IsSet("task") {
		which = "tasks"
	}
	s.printStatus("running " + which + " of " + path + " again, " + how)
	ctx, stop := interruptible(ctx, s.stderr)
	defer stop()
	return runAll(ctx, s, o, runner.Batch{
		Evals: []string{path}, Variants: o.variants, Paired: record.Against != "", Dir: to,
		Request: func() (runner.Request, error) {
			q, err := record.Again(s.overlayFrom)
			q.AllowWeak, q.HostHooks, q.Host = c.StringSlice("allow-weak"), c.Bool("allow-host-hooks"), s.host(o.out.verbosity, o.out.format, c.Bool("keep"))
			q.Baseline, q.Prewarm, q.Repeats = false, o.Prewarm, dir
			if c.IsSet("trials") {
				q.Trials = c.Int("trials")
			}
			q.Select = func(tasks []eval.ResolvedTask) ([]eval.ResolvedTask, error) {
				return selectAgain(s, tasks, ids, c.StringSlice("task"))
			}
			change(&q)
			return q, err
		},
	})
}

// selectAgain returns the tasks to run again: those with one of the ids and, if there are globs, with an ID
// that matches one of them. It prints ids that the eval no longer has, and returns an error if the eval has
// none of them.
func selectAgain(s *state, tasks []eval.ResolvedTask, ids, globs []string) ([]eval.ResolvedTask, error) {
	var gone []string
	for _, id := range ids {
		if !slices.ContainsFunc(tasks, func(t eval.ResolvedTask) bool { return t.ID == id }) {
			gone = append(gone, id)
		}
	}
	if len(gone) == len(ids) {
		return nil, usage("the eval no longer has any of these tasks: %s", strings.Join(text.Few(gone, 8), ", "))
	}
	if len(gone) > 0 {
		s.printStatus("the eval no longer has these tasks: " + strings.Join(text.Few(gone, 8), ", "))
	}
	wanted, err := selectTasks(tasks, globs, nil)
	if err != nil {
		return nil, err
	}
	again := slices.DeleteFunc(slices.Clone(wanted), func(t eval.ResolvedTask) bool { return !slices.Contains(ids, t.ID) })
	if len(again) == 0 {
		return nil, usage("no task that matches --task %s is to be run again; these are: %s", strings.Join(globs, " --task "), strings.Join(text.Few(ids, 8), ", "))
	}
	return again, nil
}

// isBelow reports whether a path is dir or below it.
func isBelow(dir, file string) bool {
	rel, err := relative(dir, file)
	return err == nil && filepath.IsLocal(rel)
}
