package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

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
	trials, workers int
	infraRetries    int
	timeout         time.Duration
	output, runDir  string
	contextDir      string
	variant         variant
	pull, pins      string
	isolate         bool
	allowWeak       []string
	keep            bool
	loudness        loudness
	noAttacks       bool
	noSkills        bool
	strictKeys      bool
	hostHooks       bool
	dryRun          bool
	parallel        bool
	judgeModel      string
	skipGraders     bool
	updateSnapshots bool
	apart           string // what tells files of this run apart from those of others of the command
	exports         exports
	start           string // where the run was begun, which paths of evals may be relative to; empty for here
	baseline        bool   // run without skills, for one that is compared with it
	format          format
}

func readOptions(c *cli.Context) (runOptions, error) {
	o := runOptions{
		trials: c.Int("trials"), infraRetries: c.Int("infra-retries"), timeout: c.Generic("timeout").(*duration).Duration,
		isolate: c.Bool("isolate"), pull: c.String("pull"), pins: c.String("pins"),
		contextDir: c.String("context-dir"), runDir: c.String("run-dir"), keep: c.Bool("keep"),
		allowWeak: c.StringSlice("allow-weak"), noAttacks: c.Bool("no-attacks"), noSkills: c.Bool("no-skills"), strictKeys: c.Bool("strict-keys"), dryRun: c.Bool("dry-run"),
		judgeModel: c.String("judge-model"), skipGraders: c.Bool("skip-graders"), updateSnapshots: c.Bool("update-snapshots"),
	}
	if err := errors.Join(inRange(c, "trials", maxTrials), o.readHarmless(c)); err != nil {
		return o, err
	}
	if o.infraRetries < 0 || o.infraRetries > runner.MaxInfraRetries {
		return o, usage("--infra-retries must be from 0 to %d", runner.MaxInfraRetries)
	}
	if c.IsSet("timeout") && o.timeout <= 0 {
		return o, usage("--timeout must be more than 0, such as 90s")
	}
	switch {
	case o.updateSnapshots && o.skipGraders:
		return o, usage("--update-snapshots writes what graders compare with, and --skip-graders leaves them out; give one of them")
	case c.IsSet("pull") && !slices.Contains(mcpconfig.PullPolicies(), o.pull):
		return o, usage("--pull must be missing, always or never")
	case c.IsSet("pins") && !slices.Contains(plan.PinModes(), o.pins):
		return o, usage("--pins must be warn, fail or off")
	case c.IsSet("pins") && !o.isolate:
		return o, usage("--pins is about waza.lock, which is read with --isolate alone: it needs --isolate")
	case c.IsSet("pull") && !o.isolate:
		return o, usage("--pull is about container images: it needs --isolate")
	}
	return o, checkAllowWeak(o)
}

// readHarmless reads what changes no trial's outcome.
func (o *runOptions) readHarmless(c *cli.Context) (err error) {
	o.workers, o.output, o.parallel, o.hostHooks = c.Int("workers"), c.String("output"), c.Bool("parallel"), c.Bool("allow-host-hooks")
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
