package main

import (
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
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/agents/script"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/redact"
	"github.com/waza-isolate/waza/runner/spec"
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
		ArgsUsage:    "EVAL.yaml",
		OnUsageError: usageError,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "isolate", Usage: "run every trial in containers of its own; without it nothing is isolated"},
			&cli.StringSliceFlag{Name: "task", Usage: "run only tasks whose id or name matches this `GLOB`; may be given again"},
			&cli.StringSliceFlag{Name: "tags", Usage: "run only tasks with a tag that matches this `GLOB`; may be given again"},
			&cli.IntFlag{Name: "trials", Usage: "`N` trials of each task", DefaultText: "the eval's"},
			&cli.IntFlag{Name: "workers", Usage: "`N` trials at once", DefaultText: "the eval's"},
			&cli.DurationFlag{Name: "timeout", Usage: "`TIME` an agent may take, such as 90s", DefaultText: "the eval's"},
			&cli.StringFlag{Name: "pull", Usage: "pull images by this `POLICY`: missing, always or never; with --isolate", DefaultText: "the eval's"},
			&cli.StringSliceFlag{Name: "allow-weak", Usage: "run although the attack `NAME` gets out of the sandbox; may be given again; with --isolate"},
			contextDirFlag(),
			mcpFlag(),
			outputFlag(),
			&cli.StringFlag{Name: "run-dir", Usage: "new `DIR` for evidence and results (default: .waza/runs/<time>-<name>)"},
			&cli.BoolFlag{Name: "keep", Usage: "leave the sandbox of the one trial standing until Ctrl-C"},
			&cli.BoolFlag{Name: "dry-run", Usage: "print each trial's plan and start nothing"},
			&cli.BoolFlag{Name: "v", Aliases: []string{"verbose"}, Usage: "show servers' stderr as it comes"},
			formatFlag(),
		},
		Action: func(c *cli.Context) error {
			j, err := s.newJob(c)
			if err != nil {
				return err
			}
			if c.Bool("dry-run") {
				return j.dryRun()
			}
			return j.run(c.Context)
		},
	}
}

// job is one waza run.
type job struct {
	*state
	options  runOptions
	eval     *spec.Eval
	overlay  *mcpconfig.ClientFile // of --mcp; else nil
	tasks    []spec.ResolvedTask
	trials   []*runner.Trial
	lock     *images.Lock
	secrets  *redact.Set
	runID    string
	progress *progress
}

// newJob reads the command line and the eval, and plans every trial. What is
// wrong with them is a usage error.
func (s *state) newJob(c *cli.Context) (*job, error) {
	o, err := readOptions(c)
	if err != nil {
		return nil, err
	}
	overlay, err := s.readOverlay(c)
	if err != nil {
		return nil, err
	}
	eval, tasks, err := spec.Load(c.Args().First(), spec.Options{
		ContextDir: c.String("context-dir"), Overlay: overlay, CheckScript: checkScript, Local: !o.isolate,
	})
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	if tasks, err = choose(tasks, c.StringSlice("task"), c.StringSlice("tags")); err != nil {
		return nil, err
	}
	j := &job{state: s, options: o, eval: eval, overlay: overlay, tasks: tasks, secrets: &redact.Set{}, runID: newRunID(eval.Name)}
	if overlay != nil {
		for _, secret := range overlay.Secrets {
			j.secrets.Add(secret)
		}
	}
	if o.isolate {
		if j.lock, err = readLock(eval); err != nil {
			return nil, err
		}
	}
	if err := j.plan(likelyPlatform()); err != nil {
		return nil, err
	}
	if o.keep && len(j.trials) != 1 {
		return nil, usage("--keep keeps one sandbox and this would run %d trials; choose one with --task and --trials 1", len(j.trials))
	}
	return j, nil
}

// plan plans every trial, with what the lock has for an engine of the platform.
func (j *job) plan(platform string) (err error) {
	lifetime := runner.PerTask
	if !j.options.isolate {
		lifetime = runner.PerBenchmark
	}
	j.trials, err = runner.Plan(j.eval, j.tasks, runner.Choices{
		Run: j.runID, Trials: j.options.trials, Timeout: j.options.timeout, Pull: j.options.pull, Lookup: j.lookup, Secrets: j.secrets,
		Lock: j.lock, Platform: platform, Lifetime: lifetime,
	})
	if err != nil {
		return usage("%w", err)
	}
	return nil
}

func checkScript(steps json.RawMessage) error {
	_, err := script.Parse(steps)
	return err
}

var unsafe = regexp.MustCompile(`[^a-z0-9]+`)

// newRunID names a run by time and eval, and so that no two are alike.
func newRunID(name string) string {
	var random [3]byte
	_, _ = rand.Read(random[:])
	safe := strings.Trim(unsafe.ReplaceAllString(strings.ToLower(name), "-"), "-")
	return time.Now().UTC().Format("20060102-150405") + "-" + safe[:min(len(safe), 32)] + "-" + hex.EncodeToString(random[:])
}

func (j *job) dryRun() error {
	for _, t := range j.trials {
		if _, err := fmt.Fprintln(j.stdout, j.secrets.String(t.String())); err != nil {
			return err
		}
	}
	return nil
}

// run runs the trials and reports. Nothing of them is left when it returns.
func (j *job) run(ctx context.Context) error {
	dir, err := j.chooseRunDir()
	if err != nil {
		return err
	}
	ctx, stop := interruptible(ctx, j.stderr)
	defer stop()
	j.warn()
	backend, err := j.openBackend(ctx)
	if err != nil {
		return &exitError{exitInfra, err}
	}
	record, err := j.prepare(ctx, backend, dir)
	if err != nil {
		return infra(errors.Join(err, backend.Close(context.WithoutCancel(ctx))))
	}
	j.progress = newProgress(j.stderr, j.lookup, len(j.trials))
	options := j.runnerOptions(dir)
	options.Weak = record.Weak()
	done, runErr := runner.Run(ctx, backend, j.trials, options)
	j.progress.close()
	runErr = errors.Join(runErr, backend.Close(context.WithoutCancel(ctx)))
	return j.finish(ctx, dir, record, done, runErr)
}

// prepare has all images on the engine and writes down what is about to run.
func (j *job) prepare(ctx context.Context, backend backend, dir string) (runner.Record, error) {
	record, err := runner.NewRecord(j.eval, j.tasks, j.overlay)
	if err != nil {
		return record, err
	}
	if installer, ok := backend.(installer); ok {
		if err := j.lockPackages(ctx, installer); err != nil {
			return record, err
		}
	}
	if err := backend.Prepare(ctx, j.trials, func(what string) { fmt.Fprintln(j.stderr, what) }); err != nil {
		return record, err
	}
	record.ID, record.Waza = j.runID, j.version
	record.Isolated, record.Network = j.options.isolate, j.trials[0].Network
	record.Workers, record.Trials = j.workers(), len(j.trials)/len(j.tasks)
	record.Timeout, record.FailFast = j.options.timeout, j.eval.Config.FailFast
	record.Engine, record.Images = backend.Describe(), runner.ImageRecords{}
	for ref, image := range backend.Images() {
		record.Images[j.secrets.String(ref)] = j.hideNames(image)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return record, err
	}
	holes := j.certify(ctx, backend, &record)
	return record, errors.Join(holes, record.Write(dir))
}

// hideNames is i without what is secret in the names of its repositories.
func (j *job) hideNames(i runner.ImageRecord) runner.ImageRecord {
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
		Dir: dir, Workers: j.workers(), FailFast: j.eval.Config.FailFast,
		Secrets: j.secrets, Progress: j.progress.update,
	}
	if j.options.verbose {
		o.ServerLog = func(t *runner.Trial, server string) io.Writer {
			return j.progress.prefixed(fmt.Sprintf("[%s/%d %s] ", t.Task, t.Number, server), j.secrets)
		}
	}
	if j.options.keep {
		o.Hold = j.hold
	}
	return o
}

func (j *job) workers() int {
	c := j.eval.Config
	switch {
	case j.options.workers > 0:
		return j.options.workers
	case !c.Parallel:
		return 1
	case c.Workers > 0:
		return c.Workers
	case c.MaxWorkers > 0:
		return c.MaxWorkers
	}
	return defaultWorkers
}
