package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/agents/script"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/gitrepo"
	"github.com/waza-isolate/waza/runner/plan"
)

const (
	defaultWorkers = 4
	maxTrials      = 10000 // as in an eval
	maxWorkers     = 256
)

func (s *state) runCommand() *cli.Command {
	return &cli.Command{
		Name:         "run",
		Usage:        "run an eval",
		ArgsUsage:    "[EVAL.yaml | DIR | SKILL]",
		Description:  "Without a name it runs the eval.yaml here, or the evals of the project.\n\n--resume RUN completes a run that ended early, as it was begun: what had finished is\nkept. Beside it only --workers, --output, --format, -v and -q can be given,\n--allow-host-hooks where the eval needs it, and --judge-url and --judge-key-env where a\njudge is still to be asked.",
		OnUsageError: usageError,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "isolate", Usage: "run every trial in containers of its own; without it nothing is isolated"},
			&cli.StringSliceFlag{Name: "task", Aliases: []string{"t"}, Usage: "run only tasks whose id or name matches this `GLOB`; may be given again"},
			&cli.StringSliceFlag{Name: "tags", Usage: "run only tasks with a tag that matches this `GLOB`; may be given again"},
			executorFlag(),
			modelFlag(),
			&cli.IntFlag{Name: "trials", Usage: "`N` trials of each task", DefaultText: "the eval's"},
			&cli.IntFlag{Name: "workers", Aliases: []string{"w"}, Usage: "`N` trials at once", DefaultText: "the eval's"},
			&cli.GenericFlag{Name: "timeout", Value: &duration{}, Usage: "`TIME` an agent may take: whole seconds, or such as 5m", DefaultText: "the eval's"},
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
			s := s.onScreen()
			if c.IsSet("resume") {
				return s.resumeRun(c)
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
			s.sayInert(c)
			if len(evals) > 1 {
				return s.runAll(c, evals)
			}
			s.target = evals[0]
			return s.runOne(c)
		},
	}
}

// runOne runs the eval that the state is about.
func (s *state) runOne(c *cli.Context) error {
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
	if !j.options.noSkills && (c.Bool("baseline") || j.eval.Baseline) {
		if c.Bool("update-snapshots") {
			return usage("--update-snapshots takes snapshots of one run, and a baseline makes it two; leave out one of them")
		}
		return j.runPaired(c)
	}
	if c.Bool("dry-run") {
		return j.dryRun()
	}
	return j.run(c.Context)
}

// job is one waza run.
type job struct {
	*state
	options  runOptions
	eval     *eval.Eval
	overlay  *mcpconfig.ClientFile // of --mcp; else nil
	tasks    []eval.ResolvedTask
	trials   []*plan.Trial
	lock     *images.Lock
	secrets  *redact.Set
	vault    *runner.Vault // nil until a run is about to begin
	judges   *judges
	runID    string
	clock    *evidence.Clock
	resumed  *resumption // of a run that ended early; nil for a new one
	against  string      // the directory of the same run without skills; empty for none
	progress *progress
}

// newJob reads the command line and the eval, and plans every trial. What is
// wrong with them is a usage error.
func (s *state) newJob(c *cli.Context, v variant) (*job, error) {
	o, err := readOptions(c)
	if err != nil {
		return nil, err
	}
	o.variant, o.apart = v, s.apart
	o.output = apart(o.output, s.apart)
	overlay, err := s.readOverlay(c)
	if err != nil {
		return nil, err
	}
	j, err := s.load(o, s.target, overlay, func(tasks []eval.ResolvedTask) ([]eval.ResolvedTask, error) {
		return choose(tasks, c.StringSlice("task"), c.StringSlice("tags"))
	})
	if err != nil {
		return nil, err
	}
	j.runID = newRunID(v.slug() + " " + j.eval.Name)
	if err := j.plan(likelyPlatform()); err != nil {
		return nil, err
	}
	if o.keep && len(j.trials) != 1 {
		return nil, usage("--keep keeps one sandbox and this would run %d trials; choose one with --task and --trials 1", len(j.trials))
	}
	return j, nil
}

// load reads an eval, and what of its tasks pick leaves.
func (s *state) load(o runOptions, path string, overlay *mcpconfig.ClientFile, pick func([]eval.ResolvedTask) ([]eval.ResolvedTask, error)) (*job, error) {
	e, tasks, err := eval.Load(path, eval.Options{
		ContextDir: o.contextDir, Overlay: overlay, CheckScript: checkScript, CheckModelScript: checkModelScript, Local: !o.isolate,
		Executor: o.variant.executor, Model: o.variant.model, JudgeModel: o.judgeModel, Start: o.start, StrictKeys: o.strictKeys, NoSkills: o.noSkills, UpdateSnapshots: o.updateSnapshots,
	})
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	s.warnOnce(e.Warnings)
	if tasks, err = pick(tasks); err != nil {
		return nil, err
	}
	if o.skipGraders {
		for i := range tasks {
			tasks[i].Graders, tasks[i].Checkpoints, tasks[i].Attack = nil, nil, nil
		}
	}
	j := &job{state: s, options: o, eval: e, overlay: overlay, tasks: tasks, secrets: &redact.Set{}, clock: evidence.StartClock(time.Now())}
	j.judges = newJudges(s, j.secrets)
	if overlay != nil {
		for _, secret := range overlay.Secrets {
			j.secrets.Add(secret)
		}
	}
	if o.isolate {
		if j.lock, err = readLock(e); err != nil {
			return nil, err
		}
	}
	return j, nil
}

// warnOnce says what of files has no effect, each once however often they are read.
func (s *state) warnOnce(warnings []*strictyaml.Error) {
	for _, w := range warnings {
		line := fmt.Sprintf("%s:%d:%d: warning: %s", w.File, w.Position.Line, w.Position.Column, w.Message)
		if s.warned[line] {
			continue
		}
		s.warned[line] = true
		fmt.Fprintln(s.stderr, text.Inert(line))
	}
}

// plan plans every trial, with what the lock has for an engine of the platform.
func (j *job) plan(platform string) (err error) {
	lifetime := plan.PerTask
	if !j.options.isolate {
		lifetime = plan.PerBenchmark
	}
	j.trials, err = plan.Plan(j.eval, j.tasks, plan.Choices{
		Run: j.runID, Trials: j.options.trials, Timeout: j.options.timeout, Pull: j.options.pull, Lookup: j.lookup, Secrets: j.secrets,
		Lock: j.lock, Platform: platform, Lifetime: lifetime, Pins: j.options.pins, ModelScript: j.modelScript,
		NoAttacks: j.options.noAttacks, Keyless: j.options.dryRun, NoSkills: j.options.noSkills, HostHooks: j.options.hostHooks,
	})
	if err != nil {
		return usage("%w", err)
	}
	if j.vault != nil {
		j.vault.Give(j.trials)
	}
	if j.options.dryRun {
		return nil
	}
	return j.checkJudges()
}

// readSecrets has the values of the servers' secrets at hand, and hands them out.
func (j *job) readSecrets(ctx context.Context) error {
	vault, err := runner.OpenVault(ctx, j.trials, j.eval.Dir(), j.lookup, j.secrets)
	if err != nil {
		if ctx.Err() != nil {
			return infra(err)
		}
		return usage("%w", err)
	}
	j.vault = vault
	j.vault.Give(j.trials)
	return nil
}

func checkScript(steps json.RawMessage) error {
	_, err := script.Parse(steps)
	return err
}

var (
	unsafe       = regexp.MustCompile(`[^a-z0-9]+`)
	unsafeInFile = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
)

// newRunID names a run by time and eval, and so that no two are alike.
func newRunID(name string) string {
	var random [3]byte
	_, _ = rand.Read(random[:])
	safe := strings.Trim(unsafe.ReplaceAllString(strings.ToLower(name), "-"), "-")
	return time.Now().UTC().Format("20060102-150405") + "-" + safe[:min(len(safe), 40)] + "-" + hex.EncodeToString(random[:])
}

func (j *job) dryRun() error {
	for _, t := range j.trials {
		if _, err := fmt.Fprintln(j.stdout, text.InertLines(j.secrets.String(t.String()))); err != nil {
			return err
		}
	}
	return nil
}

// run runs the trials and reports. Nothing of them is left on the engine or among
// processes when it returns, and nothing at all where no trial could be begun.
func (j *job) run(ctx context.Context) error {
	dir, err := j.chooseRunDir()
	if err != nil {
		return err
	}
	ctx, stop := interruptible(ctx, j.stderr)
	defer stop()
	return j.runIn(ctx, dir)
}

// runIn is run, with a new or empty directory; the end of ctx is an interrupt.
func (j *job) runIn(ctx context.Context, dir string) error {
	if err := j.checkDisk(dir); err != nil {
		return err
	}
	if err := j.readSecrets(ctx); err != nil {
		return err
	}
	record, err := j.newRecord()
	if err != nil {
		return infra(err)
	}
	made, err := makeRunDir(dir)
	if err != nil {
		return infra(err)
	}
	defer func() { _ = made.held.Close() }()
	err = record.Write(dir)
	if err == nil {
		var begun bool
		if begun, err = j.carryOut(ctx, dir, record); begun {
			return err
		}
	}
	return infra(errors.Join(err, made.abandon()))
}

// checkDisk refuses a disk on which the trials that are to be run have no room.
func (j *job) checkDisk(dir string) error {
	if err := runner.CheckDisk(dir, j.todo(), j.workers()); err != nil {
		return &exitError{exitUsage, err}
	}
	return nil
}

// carryOut runs the trials that are to be run, and reports; an interrupt ends ctx.
// Until it has begun with that, nothing in the run directory has changed, but that
// run.json keeps a certificate which forbids to begin.
func (j *job) carryOut(ctx context.Context, dir string, record runner.Record) (begun bool, err error) {
	j.warn()
	backend, err := j.openBackend(ctx)
	if err != nil {
		return false, alive(err)
	}
	if err = j.prepare(ctx, backend, &record); err == nil {
		if err = j.certify(ctx, backend, &record); err != nil && record.Certificate != nil {
			return true, infra(errors.Join(err, record.Write(dir), backend.Close(context.WithoutCancel(ctx))))
		}
	}
	if err == nil {
		err = j.begin(dir, &record)
	}
	if err != nil {
		return false, infra(errors.Join(err, backend.Close(context.WithoutCancel(ctx))))
	}
	todo := j.todo()
	j.progress = newProgress(ctx, j.screen(), j.lookup, j.options.loudness, len(todo), j.workers())
	options := j.runnerOptions(dir)
	options.Weak, options.Against = record.Weak(), record.Against
	done, runErr := runner.Run(ctx, backend, todo, options)
	j.progress.close()
	runErr = errors.Join(runErr, backend.Close(context.WithoutCancel(ctx)))
	return true, j.finish(ctx, dir, record, j.withKept(done), runErr)
}

// newRecord is what run.json says of a run before anything is done.
func (j *job) newRecord() (runner.Record, error) {
	record, err := runner.NewRecord(j.eval, j.tasks, j.overlay)
	if err != nil {
		return record, err
	}
	if record.Inputs, err = runner.Inputs(j.eval, j.tasks, j.trials); err != nil {
		return record, err
	}
	if err = record.LeaveOut(j.eval.Path, j.secrets); err != nil {
		return record, err
	}
	record.Started = j.clock.Now()
	if record.Directory, err = os.Getwd(); err != nil {
		return record, err
	}
	record.ID, record.Waza, record.Build = j.runID, j.version, j.buildID()
	record.Isolated, record.Network = j.options.isolate, j.trials[0].Network
	record.Models = j.trials[0].Models
	record.Workers, record.Trials, record.Retries = j.workers(), cmp.Or(j.options.trials, j.eval.Config.TrialsPerTask), j.options.infraRetries
	record.MaxAttempts = j.eval.Config.MaxAttempts
	record.Timeout, record.FailFast = j.options.timeout, j.eval.Config.FailFast
	record.ContextDir, record.Pull, record.Pins = j.options.contextDir, j.options.pull, j.options.pins
	record.NoAttacks, record.NoSkills, record.Baseline = j.options.noAttacks, j.options.noSkills, j.options.baseline
	record.JudgeModel, record.SkipGraders = j.options.judgeModel, j.options.skipGraders
	record.Executor, record.Model = j.options.variant.executor, j.options.variant.model
	return record, nil
}

// prepare has all images on the engine, and adds to the record what they are and
// what is about to run.
func (j *job) prepare(ctx context.Context, backend backend, record *runner.Record) error {
	if installer, ok := backend.(installer); ok {
		if err := j.lockPackages(ctx, installer); err != nil {
			return err
		}
	}
	if err := j.fetchRepos(ctx); err != nil {
		return err
	}
	if err := j.samePlan(record); err != nil {
		return err
	}
	if err := backend.Prepare(ctx, j.trials, j.say); err != nil {
		return err
	}
	images := evidence.ImageRecords{}
	for ref, image := range backend.Images() {
		images[j.secrets.String(ref)] = j.hideNames(image)
	}
	if err := sameImages(record.Images, images); err != nil {
		return err
	}
	record.Engine, record.Images = backend.Describe(), images
	return nil
}

// fetchRepos has the repositories of the tasks at hand.
func (j *job) fetchRepos(ctx context.Context) error {
	err := runner.FetchRepos(ctx, j.trials, j.say)
	var refused gitrepo.RefusedError
	if errors.As(err, &refused) {
		return usage("%w", err)
	}
	return err
}

// hideNames is i without what is secret in the names of its repositories.
func (j *job) hideNames(i evidence.ImageRecord) evidence.ImageRecord {
	digests := make([]string, len(i.Digests))
	for n, digest := range i.Digests {
		digests[n] = j.secrets.String(digest)
	}
	i.Digests = digests
	return i
}

// chooseRunDir names the run directory, which must be new or empty.
func (j *job) chooseRunDir() (string, error) {
	dir := j.options.runDir
	if dir == "" {
		return filepath.Join(".waza", "runs", j.runID), nil
	}
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0:
		return dir, nil
	case err != nil:
		return dir, usage("run directory: %w", err)
	}
	return dir, usage("run directory %s is not empty; name a new one with --run-dir", dir)
}

func (j *job) runnerOptions(dir string) runner.Options {
	o := runner.Options{
		Dir: dir, Workers: j.workers(), FailFast: j.eval.Config.FailFast, InfraRetries: j.options.infraRetries, MaxAttempts: j.eval.Config.MaxAttempts,
		Secrets: j.secrets, Progress: j.progress.update, Warn: j.warnOf, Connect: j.judges.connect,
		Hooks: plan.RunHooks(j.eval.Hooks), Start: j.options.start,
	}
	if j.options.loudness == loud {
		o.ServerLog = func(t *plan.Trial, server string) io.Writer {
			return &lineWriter{out: j.stderr, prefix: fmt.Sprintf("[%s/%d %s] ", t.Task, t.Number, server), secrets: j.secrets}
		}
	}
	if j.options.keep {
		o.Hold = j.hold
	}
	if j.options.updateSnapshots {
		o.Snapshots = j.snapshots()
	}
	return o
}

// snapshots writes the eval's snapshots.
func (j *job) snapshots() *runner.Snapshots {
	return runner.NewSnapshots(j.eval, j.tasks, func(said string) { fmt.Fprintln(j.stderr, text.Inert(said)) })
}

func (j *job) workers() int {
	c := j.eval.Config
	switch {
	case j.options.workers > 0:
		return j.options.workers
	case !c.Parallel && !j.options.parallel:
		return 1
	case c.Workers > 0:
		return c.Workers
	case c.MaxWorkers > 0:
		return c.MaxWorkers
	}
	return defaultWorkers
}
