package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/containers"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox/local"
	"github.com/waza-isolate/waza/sandbox/selftest"
)

const maxTrials = 10000 // as in an eval

// runCommand is waza run.
type runCommand struct{ *state }

func (s runCommand) command() *cli.Command {
	return &cli.Command{
		Name:         "run",
		Usage:        "run an eval",
		ArgsUsage:    "[EVAL.yaml | DIR | SKILL]",
		Description:  "Without a name it runs the eval.yaml here, or the evals of the project.\n\n--resume RUN completes a run that ended early, as it was begun: what had finished is\nkept. Beside it only --workers, --prepare, --output, --format, -v and -q can be given,\n--allow-host-hooks where the eval needs it, and --judge-url and --judge-key-env where a\njudge is still to be asked.",
		OnUsageError: usageError,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "isolate", Usage: "run every trial in containers of its own; without it nothing is isolated"},
			&cli.StringSliceFlag{Name: "task", Aliases: []string{"t"}, Usage: "run only tasks whose id or name matches this `GLOB`; may be given again"},
			&cli.StringSliceFlag{Name: "tags", Usage: "run only tasks with a tag that matches this `GLOB`; may be given again"},
			executorFlag(),
			modelFlag(),
			&cli.IntFlag{Name: "trials", Usage: "`N` trials of each task", DefaultText: "the eval's"},
			&cli.StringFlag{Name: "workers", Aliases: []string{"w"}, Usage: "`N` trials at once, or auto for as many as machine and models bear", DefaultText: "the eval's"},
			&cli.GenericFlag{Name: "timeout", Value: &duration{}, Usage: "`TIME` an agent may take: whole seconds, or such as 5m", DefaultText: "the eval's"},
			&cli.IntFlag{Name: "prepare", Usage: "open the containers of the next `N` trials while others are at work", DefaultText: "as many as trials at once, at most 4"},
			&cli.BoolFlag{Name: "parallel", Usage: "run trials side by side, as many as the eval's workers, or 4"},
			&cli.StringFlag{Name: "judge-model", Usage: "have graders ask this `MODEL`, in place of all that the eval names"},
			&cli.BoolFlag{Name: "update-snapshots", Usage: "write what trials leave over the snapshots that diff graders compare with, in the eval's directory"},
			&cli.BoolFlag{Name: "skip-graders", Usage: "run the agents and grade nothing"},
			&cli.BoolFlag{Name: "discover", Usage: "run all evals below the directory that is named, or this one"},
			&cli.BoolFlag{Name: "strict", Usage: "with --discover: every SKILL.md must have an eval"},
			&cli.BoolFlag{Name: "debug", Usage: "the same as -v"},
			&cli.IntFlag{Name: "infra-retries", Value: runner.DefaultInfraRetries, Usage: "run a trial again up to `N` times where infrastructure failed it"},
			&cli.StringFlag{Name: "pull", Usage: "pull images by this `POLICY`: missing, always or never; with --isolate", DefaultText: "the eval's"},
			&cli.StringFlag{Name: "pins", Usage: "where a server lists something else than waza.lock has pinned, `DO`: warn, fail or off; with --isolate", DefaultText: "the eval's"},
			&cli.StringSliceFlag{Name: "allow-weak", Usage: "run although the attack `NAME` gets out of the sandbox; may be given again; with --isolate"},
			&cli.BoolFlag{Name: "allow-host-hooks", Usage: "let hooks of the eval that say host: true run on this machine"},
			&cli.BoolFlag{Name: "strict-keys", Usage: "refuse every key that nothing knows, also where waza's format has others"},
			&cli.BoolFlag{Name: "no-attacks", Usage: "inject nothing of tasks' attacks: the baseline of a run that does"},
			&cli.BoolFlag{Name: "baseline", Usage: "run every trial without skills too, and say what skills change; exit code 0 where they raise the pass rate"},
			&cli.BoolFlag{Name: "no-skills", Usage: "give the agent no skills"},
			contextDirFlag(),
			mcpFlag(),
			outputFlag(),
			&cli.StringFlag{Name: "run-dir", Usage: "new `DIR` for evidence and results (default: .waza/runs/<time>-<name>)"},
			&cli.StringFlag{Name: "resume", Usage: "complete the run in the directory `RUN`, which ended early"},
			&cli.BoolFlag{Name: "keep", Usage: "leave the sandbox of the one trial standing until Ctrl-C"},
			&cli.BoolFlag{Name: "dry-run", Usage: "print each trial's plan and start nothing"},
			&cli.BoolFlag{Name: "v", Aliases: []string{"verbose"}, Usage: "show servers' stderr as it comes, and every trial that ends"},
			&cli.BoolFlag{Name: "q", Aliases: []string{"quiet"}, Usage: "say only what did not pass, and how it ends"},
			formatFlag(formatDefault, formatJSON, formatGitHub),
		}, slices.Concat(judgeFlags("--resume"), exportFlags(), inertFlags())...),
		Action: func(c *cli.Context) error {
			s := runCommand{s.onScreen()}
			if c.IsSet("resume") {
				return resumeCommand(s).resumeRun(c)
			}
			if c.IsSet(judgeURL) || c.IsSet(judgeKeyEnv) {
				return usage("--%s and --%s are for --resume: an eval says in config.judge where its judge is", judgeURL, judgeKeyEnv)
			}
			if c.Bool("strict") && !c.Bool("discover") {
				return usage("--strict is for --discover; --strict-keys refuses unknown keys")
			}
			evals, err := s.targets(c)
			if err != nil {
				return err
			}
			sayInert(c, s.stderr)
			ctx, stop := interruptible(c.Context, s.stderr) // once for all runs of the command
			defer stop()
			c.Context = ctx
			if len(evals) > 1 {
				return s.runAll(c, evals)
			}
			s.target = evals[0]
			return s.runOne(c)
		},
	}
}

// runOne runs the eval that the state is about.
func (s runCommand) runOne(c *cli.Context) error {
	variants, err := readVariants(c)
	if err != nil {
		return err
	}
	if c.Bool("baseline") && c.Bool("no-skills") {
		return usage("--baseline runs with and without skills and --no-skills without them: give one of them")
	}
	if len(variants) > 1 {
		if c.Bool("update-snapshots") {
			return usage("--update-snapshots takes snapshots of one run, and this would be %d; give one model and one executor", len(variants))
		}
		return s.runEach(c, variants)
	}
	j, err := s.newJob(c, variants[0])
	if err != nil {
		return err
	}
	if !j.options.NoSkills && (c.Bool("baseline") || j.Eval.Baseline) {
		if c.Bool("update-snapshots") {
			return usage("--update-snapshots takes snapshots of one run, and a baseline makes it two; leave out one of them")
		}
		return j.runPaired(c)
	}
	if c.Bool("dry-run") {
		return j.dryRun()
	}
	return j.runNew(c.Context)
}

// newJob reads the command line and the eval, and plans every trial. What is wrong with
// them is a usage error.
func (s runCommand) newJob(c *cli.Context, v variant, change ...func(*runOptions)) (*job, error) {
	o, err := readOptions(c)
	if err != nil {
		return nil, err
	}
	o.Eval, o.Name, o.Executor, o.Model, o.apart = s.target, v.slug(), v.executor, v.model, s.apart
	o.output = apart(o.output, s.apart)
	if o.Overlay, err = s.readOverlay(c); err != nil {
		return nil, err
	}
	o.Select = func(tasks []eval.ResolvedTask) ([]eval.ResolvedTask, error) {
		return choose(tasks, c.StringSlice("task"), c.StringSlice("tags"))
	}
	for _, change := range change {
		change(&o)
	}
	j := &job{state: s.state, options: o}
	j.options.Host = s.host(o, &j.progress)
	if j.Job, err = runner.Load(j.options.Request); err != nil {
		return nil, infra(err)
	}
	if c.Context.Err() != nil {
		return nil, infra(errInterrupted)
	}
	if o.keep && len(j.Trials) != 1 {
		return nil, usage("--keep keeps one sandbox and this would run %d trials; choose one with --task and --trials 1", len(j.Trials))
	}
	return j, nil
}

func checkAllowWeak(o runOptions) error {
	if len(o.AllowWeak) > 0 && !o.Isolated {
		return usage("--allow-weak is about the sandbox: it needs --isolate")
	}
	if err := selftest.CheckNames(o.AllowWeak); err != nil {
		return usage("--allow-weak: %w", err)
	}
	return nil
}

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
	prepare        int // sandboxes opened ahead; less than 0 for the default
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
	case o.Governed && !o.Isolated:
		return o, usage("--workers auto needs --isolate: without it trials may disturb each other")
	case c.IsSet("prepare") && !o.Isolated:
		return o, usage("--prepare is about containers: it needs --isolate")
	case c.IsSet("pull") && !o.Isolated:
		return o, usage("--pull is about container images: it needs --isolate")
	}
	return o, checkAllowWeak(o)
}

// readHarmless reads what changes no trial's outcome.
func (o *runOptions) readHarmless(c *cli.Context) (err error) {
	o.output, o.Parallel, o.HostHooks = c.String("output"), c.Bool("parallel"), c.Bool("allow-host-hooks")
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
	if o.prepare = -1; c.IsSet("prepare") {
		if o.prepare = c.Int("prepare"); o.prepare < 0 || o.prepare > eval.MaxWorkers {
			return usage("--prepare must be from 0 to %d", eval.MaxWorkers)
		}
	}
	switch workers := c.String("workers"); {
	case workers == "auto":
		o.Governed = true
	case c.IsSet("workers"):
		if o.Workers, err = strconv.Atoi(workers); err != nil || o.Workers < 1 || o.Workers > eval.MaxWorkers {
			return usage("--workers must be auto or a number from 1 to %d", eval.MaxWorkers)
		}
	}
	return nil
}

func inRange(c *cli.Context, name string, most int) error {
	if n := c.Int(name); c.IsSet(name) && (n < 1 || n > most) {
		return usage("--%s must be from 1 to %d", name, most)
	}
	return nil
}

// resumeCommand is waza run --resume.
type resumeCommand struct{ *state }

// resumeRun completes the run that --resume names, as it was begun.
func (s resumeCommand) resumeRun(c *cli.Context) error {
	o, err := readResumeOptions(c)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(c.Context, s.stderr)
	defer stop()
	j := &job{state: s.state, options: o}
	r := runner.Resumption{
		Dir: c.String("resume"), Eval: c.Args().First(), Workers: o.Workers, Governed: o.Governed, Parallel: o.Parallel, HostHooks: o.HostHooks,
		Consulting: s.consulting(c), ReadOverlay: s.overlayFrom, Sweep: sweep, Host: s.host(o, &j.progress),
	}
	if c.IsSet("isolate") {
		isolated := c.Bool("isolate")
		r.Isolated = &isolated
	}
	var out runner.Outcome
	j.Job, out, err = runner.Resume(ctx, r)
	return j.finish(out, err)
}

// harmless are the options that can be given with --resume: they change no trial's
// outcome. That of --isolate must be the run's own.
var harmless = []string{"resume", "isolate", "workers", "prepare", "parallel", "output", "format", "v", "debug", "q", "reporter", "output-dir", "transcript-dir", "session-log", "session-dir", "no-update-check", "no-cache", "no-summary", "allow-host-hooks", judgeURL, judgeKeyEnv}

func readResumeOptions(c *cli.Context) (o runOptions, err error) {
	for _, flag := range c.Command.Flags {
		if name := flag.Names()[0]; c.IsSet(name) && !slices.Contains(harmless, name) {
			return o, usage("--%s cannot be given with --resume: a run goes on as it was begun", name)
		}
	}
	if c.NArg() > 1 {
		return o, usage("run --resume takes no eval file, or the one that the run began with; see waza run --help")
	}
	return o, o.readHarmless(c)
}

// sweep removes what a dead run left.
func sweep(ctx context.Context, id string, isolated bool) error {
	if isolated {
		return containers.Sweep(ctx, id)
	}
	return local.Sweep(ctx, "", id)
}
