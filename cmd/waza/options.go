package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/plan"
)

func outputFlag() cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write results.json to this `FILE` too"}
}

func contextDirFlag() cli.Flag {
	return &cli.StringFlag{Name: "context-dir", Aliases: []string{"c"}, Usage: "`DIR` of fixtures, in place of fixtures beside the eval"}
}

// runOptions is the command line of waza run.
type runOptions struct {
	runner.Request
	output, runDir string
	keep           bool
	loudness       loudness
	apart          string // what tells files of this run apart from those of others of the command
	exports        exports
	format         format
}

func readOptions(c *cli.Context) (runOptions, error) {
	o := runOptions{runDir: c.String("run-dir"), keep: c.Bool("keep"), Request: runner.Request{
		Choices: runner.Choices{
			Isolated: c.Bool("isolate"), Trials: c.Int("trials"), Retries: c.Int("infra-retries"), Timeout: c.Generic("timeout").(*duration).Duration,
			Pull: c.String("pull"), Pins: c.String("pins"), ContextDir: c.String("context-dir"),
			NoAttacks: c.Bool("no-attacks"), NoSkills: c.Bool("no-skills"), JudgeModel: c.String("judge-model"), SkipGraders: c.Bool("skip-graders"),
		},
		AllowWeak: c.StringSlice("allow-weak"), StrictKeys: c.Bool("strict-keys"), UpdateSnapshots: c.Bool("update-snapshots"), Keyless: c.Bool("dry-run"),
	}}
	if err := errors.Join(inRange(c, "trials", maxTrials), o.readHarmless(c)); err != nil {
		return o, err
	}
	if o.Retries < 0 || o.Retries > runner.MaxInfraRetries {
		return o, usage("--infra-retries must be from 0 to %d", runner.MaxInfraRetries)
	}
	if c.IsSet("timeout") && o.Timeout <= 0 {
		return o, usage("--timeout must be more than 0, such as 90s")
	}
	switch {
	case o.UpdateSnapshots && o.SkipGraders:
		return o, usage("--update-snapshots writes what graders compare with, and --skip-graders leaves them out; give one of them")
	case c.IsSet("pull") && !slices.Contains(mcpconfig.PullPolicies(), o.Pull):
		return o, usage("--pull must be missing, always or never")
	case c.IsSet("pins") && !slices.Contains(plan.PinModes(), o.Pins):
		return o, usage("--pins must be warn, fail or off")
	case c.IsSet("pins") && !o.Isolated:
		return o, usage("--pins is about waza.lock, which is read with --isolate alone: it needs --isolate")
	case c.IsSet("pull") && !o.Isolated:
		return o, usage("--pull is about container images: it needs --isolate")
	}
	return o, checkAllowWeak(o)
}

// readHarmless reads what changes no trial's outcome.
func (o *runOptions) readHarmless(c *cli.Context) (err error) {
	o.Workers, o.output, o.Parallel, o.HostHooks = c.Int("workers"), c.String("output"), c.Bool("parallel"), c.Bool("allow-host-hooks")
	if o.exports, err = readExports(c, o.output); err != nil {
		return err
	}
	switch {
	case c.Bool("v") && c.Bool("q"):
		return usage("-v says more and -q says less: give one of them")
	case c.Bool("v") || c.Bool("debug"):
		o.loudness = loud
	case c.Bool("q"):
		o.loudness = quiet
	}
	if o.output != "" {
		if info, err := os.Stat(filepath.Dir(o.output)); err != nil || !info.IsDir() {
			return usage("--output: there is no directory %s", filepath.Dir(o.output))
		}
	}
	if o.format, err = formatOf(c, formatDefault, formatJSON, formatGitHub); err != nil {
		return err
	}
	return inRange(c, "workers", maxWorkers)
}

func inRange(c *cli.Context, name string, most int) error {
	if n := c.Int(name); c.IsSet(name) && (n < 1 || n > most) {
		return usage("--%s must be from 1 to %d", name, most)
	}
	return nil
}
