package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/agents/script"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/runner"
)

// lockCommand is waza lock.
func lockCommand(s *state) *cli.Command {
	return &cli.Command{
		Name:      "lock",
		Usage:     "Pin the versions of an eval's npx and uvx packages",
		ArgsUsage: "[EVAL.yaml | DIR | SKILL]",
		Description: "Resolves the npx and uvx packages of an eval's servers, with their dependencies, and writes their " +
			"versions to waza.lock next to the eval, so that every run with --isolate installs the same. Entries " +
			"that no task needs are removed. No trial is run.\n\n" +
			"Without an argument, waza lock does so for eval.yaml in the current directory, or for all evals of " +
			"the project.",
		Flags: []cli.Flag{
			contextDirFlag(),
			mcpFlag(), allowEnvFlag(),
			&cli.BoolFlag{Name: "update", Usage: "Resolve all packages again, not only missing ones"},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			evals, err := targets(c)
			if err != nil {
				return err
			}
			s := withEval(s, c, c.Args().First(), "waza lock %s")
			overlay, err := s.readOverlay(c)
			if err != nil {
				return err
			}
			type loaded struct {
				eval  *eval.Eval
				tasks []eval.ResolvedTask
			}
			all := make([]loaded, len(evals))
			for i, path := range evals {
				all[i].eval, all[i].tasks, err = eval.Load(path, eval.Options{
					ContextDir: c.String("context-dir"), Overlay: overlay, CheckScript: script.Check,
				})
				if err != nil {
					return &exitError{exitUsage, err}
				}
			}
			ctx, stop := interruptible(ctx, s.stderr)
			defer stop()
			for _, l := range all {
				if err := lockPackages(ctx, s, l.eval, l.tasks, c.Bool("update")); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func lockPackages(ctx context.Context, s *state, e *eval.Eval, tasks []eval.ResolvedTask, update bool) (err error) {
	old := &images.Lock{}
	if !update {
		if old, err = runner.ReadLock(e); err != nil {
			return err
		}
	}
	lock, err := runner.CompleteLock(ctx, e, tasks, old, s.host(normal, formatDefault, false))
	if err == nil && lock.Len()+old.Len() > 0 {
		err = runner.WriteLock(e, lock)
	}
	if err != nil {
		return withExitCode(err)
	}
	if lock.Len() == 0 {
		fmt.Fprintf(s.stdout, "no task of %s needs a package\n", e.Path)
		return nil
	}
	fmt.Fprintf(s.stdout, "%s holds %s\n", runner.LockPath(e), text.Count(lock.Len(), "package"))
	return nil
}
