package main

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/containers"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/terminal"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox/local"
)

const maxTrials = 10000 // as in eval files

// runCommand is waza run.
func runCommand(s *state) *cli.Command {
	return &cli.Command{
		Name:        "run",
		Usage:       "Run an eval",
		ArgsUsage:   "[EVAL.yaml | DIR | SKILL]",
		Description: "Without an argument, waza run runs eval.yaml in the current directory, or all evals of the project.\n\n--resume RUN completes a run that ended early and keeps its finished trials. It takes --workers, --prepare and --offline, the options that say what is printed, written and exported, --allow-host-hooks and --allow-env if the eval needs them, and --judge-url and --judge-key-env if a judge has yet to be asked.",
		Flags: slices.Concat(
			under(groupSelect,
				&cli.StringSliceFlag{Name: "task", Aliases: []string{"t"}, Usage: "Run only tasks whose id or name matches `GLOB` (repeatable)"},
				&cli.StringSliceFlag{Name: "tags", Usage: "Run only tasks with a tag that matches `GLOB` (repeatable)"},
				trialsFlag("the eval's"),
				&cli.BoolFlag{Name: "discover", Usage: "Run all evals below the directory given, or here"},
				&cli.BoolFlag{Name: "strict", Usage: "With --discover, fail if a SKILL.md has no eval"},
				&cli.GenericFlag{Name: "shard", Value: &shardValue{}, Usage: "Run part `I/N` of the tasks, such as 1/4; merge the parts with waza merge"},
				&cli.StringFlag{Name: "resume", Usage: "Complete the run in directory `RUN`"},
				&cli.BoolFlag{Name: "dry-run", Usage: "Print each trial's plan without starting anything"},
			),
			under(groupAgent,
				executorFlag(),
				modelFlag(),
				mcpFlag(),
				contextDirFlag(),
				&cli.GenericFlag{Name: "timeout", Value: &duration{}, Usage: "Stop an agent after `TIME`, such as 300 (seconds) or 5m", DefaultText: "the eval's"},
				&cli.BoolFlag{Name: "baseline", Usage: "Run every trial also without faults or skills; the skills stay if there are faults, else the exit code is 0 if they raise the pass rate"},
				&cli.BoolFlag{Name: "no-skills", Usage: "Run the agent without skills"},
				&cli.BoolFlag{Name: "no-attacks", Usage: "Run without the tasks' attacks, as a baseline"},
				&cli.StringFlag{Name: "faults", Usage: "Make the faults in `FILE` in all tasks; they take the place of theirs and the eval's; none for no faults", DefaultText: "the eval's"},
			),
			under(groupSandbox,
				isolateFlag("Run each trial in its own containers; --no-isolate runs agents and servers as processes of yours"),
				onFlag(),
				egressFlag(),
				pullFlag("; requires --isolate"),
				offlineFlag(),
				&cli.StringFlag{Name: "workers", Aliases: []string{"w"}, Usage: "Run up to `N` trials at once; auto for as many as the engine has room for", DefaultText: "the eval's"},
				&cli.BoolFlag{Name: "parallel", Usage: "Run trials in parallel: as many as the eval's workers, or 4", Hidden: true},
				&cli.IntFlag{Name: "prepare", Usage: "Start the containers of the next `N` trials in advance", DefaultText: "the number of trials at once, at most 4", Action: mustBeFrom("prepare", 0, eval.MaxWorkers)},
				&cli.IntFlag{Name: "infra-retries", Value: runner.DefaultInfraRetries, Usage: "Retry a trial up to `N` times if the infrastructure failed"},
				&cli.StringFlag{Name: "pins", Usage: "What to do if a server lists something other than waza.lock pins, as `MODE`: warn, fail or off; requires --isolate", DefaultText: "the eval's", Action: mustBeOneOf("pins", plan.PinModes())},
				allowWeakFlag("Run", "; requires --isolate"),
				allowEnvFlag(),
				&cli.BoolFlag{Name: "allow-host-hooks", Usage: "Allow hooks with host: true to run on this machine"},
				&cli.BoolFlag{Name: "keep", Usage: "Keep the sandbox of the trial until Ctrl-C; for a single trial"},
			),
			under(groupSandbox, cassetteFlags()...),
			under(groupGrade,
				&cli.StringFlag{Name: "judge-model", Usage: "Use `MODEL` for graders that name none (in place of the eval's)"},
				&cli.BoolFlag{Name: "skip-graders", Usage: "Run the agents without grading"},
				&cli.BoolFlag{Name: "update-snapshots", Usage: "Overwrite snapshots with what the trials produce (those of diff graders)"},
			),
			under(groupGrade, judgeFlags("--resume")...),
			under(groupOutput,
				&cli.StringFlag{Name: "run-dir", Usage: "Write the run to the new directory `DIR` (default: .waza/runs/<time>-<name>-<random>)"},
				outputFlag(),
				formatFlag(formatDefault, formatJSON, formatGitHub),
				&cli.BoolFlag{Name: "v", Aliases: []string{"verbose"}, Usage: "Print servers' stderr, and each trial as it ends"},
				&cli.BoolFlag{Name: "q", Aliases: []string{"quiet"}, Usage: "Print only failed trials and the verdict"},
				&cli.BoolFlag{Name: "debug", Usage: "Same as -v", Hidden: true},
			),
			under(groupOutput, exportFlags()...),
			under(groupOutput, otelFlags()...),
			[]cli.Flag{&cli.BoolFlag{Name: helpAll, Usage: "Show all options, in full"}},
			inertFlags(),
		),
		CustomHelpTemplate: briefHelp,
		Before:             reach,
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Bool(helpAll) {
				c.CustomHelpTemplate = ""
				return cli.ShowSubcommandHelp(c)
			}
			if _, err := readOn(s, c); err != nil {
				return err
			}
			if c.IsSet("resume") {
				return resumeRun(ctx, s, c)
			}
			if c.IsSet(judgeURL) || c.IsSet(judgeKeyEnv) {
				return usage("--%s and --%s are for --resume: an eval says in config.judge where its judge is", judgeURL, judgeKeyEnv)
			}
			if c.Bool("strict") && !c.Bool("discover") {
				return usage("--strict is for --discover")
			}
			go s.buildID() // the first call reads the whole executable
			evals, err := targets(c)
			if err != nil {
				return err
			}
			s := withEval(s, c, c.Args().First(), "waza run %s")
			warnOfInert(c, s.stderr)
			ctx, stop := interruptible(ctx, s.stderr) // shared by all runs of the command
			defer stop()
			return runEvals(ctx, s, c, evals)
		},
	}
}

// runEvals runs evals according to the command line. The exit code is that of the worst run.
func runEvals(ctx context.Context, s *state, c *cli.Command, evals []string) error {
	o, err := readOptions(s, c, evals)
	if err != nil {
		return err
	}
	b := runner.Batch{
		Evals: evals, Variants: o.variants, Paired: c.Bool("baseline"), Dir: c.String("run-dir"),
		Request: func() (runner.Request, error) { return newRequest(s, c, o) },
	}
	if c.Bool("dry-run") {
		b.Print = func(j *runner.Job) error { return printPlan(s, j) }
	}
	return runAll(ctx, s, o, b)
}

// runAll runs a batch and shows its outcomes.
func runAll(ctx context.Context, s *state, o runOptions, b runner.Batch) error {
	worst := exitOK
	var verdicts []string // of completed runs
	b.Announce = s.printStatus
	b.Ended = func(j *runner.Job, out runner.Outcome, err error) error {
		err = o.outputOf(j).printOutcome(j, out, err)
		verdicts = append(verdicts, out.View().Verdict())
		if code := out.ExitCode(); err == nil && !(j.Request.Baseline && code == exitFailed) {
			worst = worse(worst, code)
		}
		return err
	}
	b.Compared = func(eval string, runs results.Comparison) error {
		return s.compare(runs, o.out.format, withLabel(o.out.file, o.labelOf(eval)))
	}
	b.Failed = func(err error) {
		exit := exitOf(err)
		worst = worse(worst, exit.code)
		if exit.err != nil {
			s.printError(exit.err)
		}
	}
	runner.RunBatch(ctx, b)
	if len(verdicts) > 1 {
		w := s.stdout
		if o.out.format != formatDefault {
			w = s.stderr
		}
		fmt.Fprintln(w, terminal.Verdicts(verdicts, worst == exitOK, s.styleOf(w)))
	}
	return exitWith(worst)
}

// newRequest returns the request for one of the runs.
func newRequest(s *state, c *cli.Command, o runOptions) (q runner.Request, err error) {
	q = o.Request
	q.Host = s.host(o.out.verbosity, o.out.format, c.Bool("keep"))
	q.Overlay, err = s.readOverlay(c)
	return q, err
}

// outputOf returns the destination of the output of j's run. Stdout and --output are for the command's only
// run or for the comparison; with several variants, single runs are printed to stderr.
func (o runOptions) outputOf(j *runner.Job) runOutput {
	label := []string{o.labelOf(j.Request.Eval)}
	several := len(o.variants) > 1
	if several {
		label = append(label, runner.Variant{Executor: j.Request.Executor, Model: j.Request.Model}.Slug())
	}
	if several && j.Request.Baseline {
		label = append(label, "baseline")
	}
	out := o.out
	out.file, out.label = withLabel(out.file, label[0]), strings.Trim(strings.Join(label, "_"), "_")
	if several || j.Request.Baseline {
		aside := *out.state
		aside.stdout = out.stderr
		out.state, out.format, out.file = &aside, formatDefault, ""
	}
	return out
}

// printPlan prints the plan of each trial.
func printPlan(s *state, j *runner.Job) error {
	for _, t := range j.Trials {
		if _, err := fmt.Fprintln(s.stdout, text.InertLines(j.Request.Host.Secrets.String(t.String()))); err != nil {
			return err
		}
	}
	return nil
}

// worse returns the more severe of two exit codes.
func worse(a, b int) int {
	for _, code := range []int{exitUsage, exitInfra, exitFailed} {
		if a == code || b == code {
			return code
		}
	}
	return exitOK
}

func outputFlag() cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "Also write results.json to `FILE`"}
}

func contextDirFlag() cli.Flag {
	return &cli.StringFlag{Name: "context-dir", Aliases: []string{"c"}, Usage: "Take fixtures from `DIR` instead of the directory fixtures next to the eval", Action: func(_ context.Context, _ *cli.Command, dir string) error {
		if !isDir(dir) {
			return usage("--context-dir: there is no directory %s", dir)
		}
		return nil
	}}
}

// runOptions is the command line of waza run.
type runOptions struct {
	runner.Request     // without host and overlay, which are set for each run
	evals          int // number of evals
	variants       []runner.Variant
	out            runOutput // for a single run
}

// labelOf returns a label for the files of an eval's runs, or "" if the command runs only one
// eval.
func (o runOptions) labelOf(eval string) string {
	if o.evals < 2 {
		return ""
	}
	return slug(strings.TrimSuffix(filepath.ToSlash(eval), filepath.Ext(eval)))
}

func readOptions(s *state, c *cli.Command, evals []string) (o runOptions, err error) {
	o = runOptions{evals: len(evals), Request: runner.Request{
		Choices: runner.Choices{
			Isolated: c.Bool("isolate"), Trials: c.Int("trials"), Retries: c.Int("infra-retries"), Timeout: c.Generic("timeout").(*duration).Duration,
			Pull: c.String("pull"), On: onOf(c), Pins: c.String("pins"), ContextDir: c.String("context-dir"), Egress: c.StringSlice("egress"),
			NoAttacks: c.Bool("no-attacks"), NoSkills: c.Bool("no-skills"), Faults: c.String("faults"), JudgeModel: c.String("judge-model"), SkipGraders: c.Bool("skip-graders"),
			AllowWeak: c.StringSlice("allow-weak"), Playing: playingOf(c),
		},
		AsWritten: !c.IsSet("isolate"), UpdateSnapshots: c.Bool("update-snapshots"), Keyless: c.Bool("dry-run"),
		HostHooks: c.Bool("allow-host-hooks"), Shard: c.Generic("shard").(*shardValue).Shard,
		Select: func(tasks []eval.ResolvedTask) ([]eval.ResolvedTask, error) {
			return selectTasks(tasks, c.StringSlice("task"), c.StringSlice("tags"))
		},
	}}
	if o.evals > 1 && (c.String("run-dir") != "" || c.Bool("keep")) {
		return o, usage("--run-dir and --keep are for one eval, and this would run %d; name one of %s", o.evals, strings.Join(evals, ", "))
	}
	if o.variants, err = readVariants(c); err != nil {
		return o, err
	}
	o.out, o.Pace, err = readOutputAndPace(s, c, c.String("output"))
	if err != nil {
		return o, err
	}
	if o.Retries < 0 {
		return o, usage("--infra-retries must be 0 or more")
	}
	if c.IsSet("timeout") && o.Timeout <= 0 {
		return o, usage("--timeout must be more than 0, such as 90s")
	}
	switch runs := len(o.variants); {
	case c.Bool("baseline") && o.NoSkills:
		return o, usage("--baseline runs with and without skills and --no-skills without them: give one of them")
	case o.UpdateSnapshots && runs > 1:
		return o, usage("--update-snapshots takes snapshots of one run, and this would be %d; give one model and one executor", runs)
	case c.Bool("keep") && runs > 1:
		return o, usage("--keep keeps one sandbox and this would be %d runs; name one --executor and one --model", runs)
	case o.UpdateSnapshots && o.SkipGraders:
		return o, usage("--update-snapshots writes what graders compare with, and --skip-graders leaves them out; give one of them")
	}
	return o, nil
}

// readOutputAndPace reads the options that cannot change a trial's outcome: destinations of output, and the
// number of trials that run at once.
func readOutputAndPace(s *state, c *cli.Command, file string) (out runOutput, p runner.Pace, err error) {
	if out, err = readOutput(s, c, file); err != nil {
		return out, p, err
	}
	p = runner.Pace{Parallel: c.Bool("parallel"), Prewarm: -1}
	if c.IsSet("prepare") {
		p.Prewarm = c.Int("prepare")
	}
	switch workers := c.String("workers"); {
	case workers == "auto":
		p.Auto = true
	case c.IsSet("workers"):
		if p.Workers, err = strconv.Atoi(workers); err != nil || p.Workers < 1 || p.Workers > eval.MaxWorkers {
			return out, p, usage("--workers must be auto or a number from 1 to %d, not %q", eval.MaxWorkers, workers)
		}
	}
	return out, p, nil
}

func executorFlag() cli.Flag {
	return &cli.StringSliceFlag{
		Name:        "executor",
		Usage:       "Run the eval with agent `NAME`, or NAME=MODEL; several (comma-separated or repeated) are run one after another and compared",
		DefaultText: "the eval's",
	}
}

func modelFlag() cli.Flag {
	return &cli.StringSliceFlag{
		Name:        "model",
		Aliases:     []string{"m"},
		Usage:       "Use `MODEL` for the agent; several (comma-separated or repeated) are run one after another and compared",
		DefaultText: "the eval's",
	}
}

// readVariants returns a variant for each combination of an executor and a model of the command line. An
// executor written as NAME=MODEL has only that model. Without either flag it returns one empty variant, which
// leaves the eval unchanged.
func readVariants(c *cli.Command) ([]runner.Variant, error) {
	executors, err := listOf(c, "executor", executorName)
	if err != nil {
		return nil, err
	}
	models, err := listOf(c, "model", modelName)
	if err != nil {
		return nil, err
	}
	var all []runner.Variant
	for _, given := range executors {
		executor, model, own := strings.Cut(given, "=")
		switch {
		case own && c.IsSet("model"):
			return nil, usage("--executor %s contains a model, and so does --model; give only one of them", given)
		case own:
			all = append(all, runner.Variant{Executor: executor, Model: model})
			continue
		}
		for _, model := range models {
			all = append(all, runner.Variant{Executor: executor, Model: model})
		}
	}
	seen := map[runner.Variant]bool{}
	for _, v := range all {
		if v.Executor != "" {
			if err := eval.CheckExecutor(v.Executor); err != nil {
				return nil, usage("--executor: %w", err)
			}
		}
		meant := runner.Variant{Executor: adapter.Meant(v.Executor), Model: v.Model}
		if seen[meant] {
			return nil, usage("--executor %s is %s, which is named too; remove one of them", v.Executor, meant.Executor)
		}
		seen[meant] = true
	}
	return all, nil
}

// Syntax of the values of --model and --executor.
var (
	modelName    = regexp.MustCompile(`^[\pL\pN._:/@+-]+$`)
	executorName = regexp.MustCompile(`^[\pL\pN._-]+(=[\pL\pN._:/@+-]+)?$`)
)

// listOf returns the values of a repeatable flag with comma-separated values. It returns one
// empty value if the flag is not given.
func listOf(c *cli.Command, flag string, looks *regexp.Regexp) (values []string, err error) {
	if !c.IsSet(flag) {
		return []string{""}, nil
	}
	seen := map[string]bool{}
	for _, given := range c.StringSlice(flag) {
		for value := range strings.SplitSeq(given, ",") {
			value = strings.TrimSpace(value)
			switch {
			case !looks.MatchString(value):
				return nil, usage("--%s: %q is not a valid name", flag, value)
			case seen[value]:
				return nil, usage("--%s names %s twice", flag, value)
			}
			seen[value] = true
			values = append(values, value)
		}
	}
	return values, nil
}

// resumeRun completes the run named by --resume, with the options that it was started with.
func resumeRun(ctx context.Context, s *state, c *cli.Command) error {
	if err := checkResumable(c); err != nil {
		return err
	}
	out, pace, err := readOutputAndPace(s, c, c.String("output"))
	if err != nil {
		return err
	}
	dir, err := runNamed(c.String("resume"))
	if err != nil {
		return err
	}
	s = withRun(s, c, c.String("resume"), c.Args().First())
	if record, err := runner.ReadRecord(dir); err == nil { // Resume reports an error
		if c.IsSet("on") && onOf(c) != record.On {
			return usage("--on cannot be changed with --resume: a run is resumed with its own options")
		}
		if err := handOverFor(s, record); err != nil {
			return err
		}
	}
	ctx, stop := interruptible(ctx, s.stderr)
	defer stop()
	r := runner.Resumption{
		Dir: dir, Eval: c.Args().First(), Pace: pace, HostHooks: c.Bool("allow-host-hooks"),
		ReadOverlay: s.overlayFrom, Sweep: sweep, Host: s.hostOfRecorded(c, out.verbosity),
	}
	if c.IsSet("isolate") {
		isolated := c.Bool("isolate")
		r.Isolated = &isolated
	}
	j, ended, err := runner.Resume(ctx, r)
	if err := out.printOutcome(j, ended, err); err != nil {
		return err
	}
	return exitWith(ended.ExitCode())
}

// resumeFlags are the options that can be given with --resume because they cannot change a trial's
// outcome. --isolate and --on must match the run's own.
var resumeFlags = []string{"resume", "isolate", "on", "workers", "prepare", "parallel", "offline", "output", "format", "v", "debug", "q", "reporter", "output-dir", "transcript-dir", "session-log", "session-dir", "otel-exporter", "otel-endpoint", "otel-headers", "otel-file", "otel-include-payloads", "no-update-check", "no-cache", "no-summary", "allow-host-hooks", "allow-env", judgeURL, judgeKeyEnv}

// checkResumable rejects options that cannot be changed when a run is resumed.
func checkResumable(c *cli.Command) error {
	for _, flag := range c.Flags {
		if name := flag.Names()[0]; c.IsSet(name) && !slices.Contains(resumeFlags, name) {
			return usage("--%s cannot be given with --resume: a run is resumed with its own options; leave it out, or start a new run", name)
		}
	}
	if c.NArg() > 1 {
		return usage("run --resume takes no eval file, or the one that the run started with; see waza run --help")
	}
	return nil
}

// sweep removes what an interrupted run left.
func sweep(ctx context.Context, dead runner.Record) error {
	switch {
	case dead.On == eval.OnKubernetes:
		return sweepCluster(ctx, dead)
	case dead.Isolated:
		return containers.Sweep(ctx, dead.ID)
	}
	return local.Sweep("", dead.ID)
}
