package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/containers"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/model/stub"
	"github.com/waza-isolate/waza/report/terminal"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/gitrepo"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/runner/trial"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/local"
)

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

// finish writes the results, seals the run directory and prints what came out.
func (j *job) finish(ctx context.Context, dir string, record runner.Record, done []runner.Result, runErr error) error {
	record.Ended = j.clock.Now()
	record.Interrupted = ctx.Err() != nil && len(done) < record.Planned()
	if len(done) > 0 {
		record.Guarantees = done[0].Trial.Guarantees
	}
	summary, err := runner.Summarise(dir, record)
	var shown error
	if err == nil {
		err = errors.Join(record.Report(dir, summary), record.Seal(dir))
		if err == nil {
			err = j.export(dir, summary)
		}
		shown = j.showAs(record.Shown(dir, summary), j.options)
	}
	runErr = errors.Join(runErr, err)
	if j.options.format == formatDefault {
		j.epilogue(record, record.Shown(dir, summary), done)
	}
	switch {
	case runErr != nil:
		return &exitError{exitInfra, errors.Join(runErr, shown)}
	case shown != nil:
		return shown
	}
	return exitWith(record.ExitCode(summary))
}

// epilogue says what did not pass and why, and where the evidence is.
func (j *job) epilogue(record runner.Record, run view.Run, done []runner.Result) {
	end := terminal.Ending{Run: run, Style: j.styleOf(j.stdout), Resumable: isResumable(record, done)}
	for _, r := range done {
		end.Trials = append(end.Trials, ended(r))
	}
	page := filepath.Join(run.Dir, runner.ReportFile)
	if info, err := os.Stat(page); err == nil && info.Mode().IsRegular() {
		end.Report = page
	}
	if j.options.loudness == quiet {
		_ = end.WriteShort(j.stdout)
	} else {
		_ = end.Write(j.stdout)
	}
}

// ended is what is shown of a trial; where its agent ended by itself, with what that said
// last.
func ended(r runner.Result) terminal.Trial {
	t := terminal.Trial{Trial: r.Trial, Verdicts: r.Verdicts, Earlier: r.Earlier}
	if r.Verdicts.Reason == evidence.ReasonExitCode || r.Verdicts.Reason == evidence.ReasonSignal {
		t.LastWords = r.Dir.LastWords()
	}
	return t
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

// screen is where the job says what it does.
func (j *job) screen() *screen {
	if s, ok := j.stderr.(*screen); ok {
		return s
	}
	return &screen{out: j.stderr}
}

// say says what the job is about, unless it is to be quiet.
func (j *job) say(what string) {
	if j.options.loudness != quiet {
		fmt.Fprintln(j.stderr, what)
	}
}

// hold tells how to enter a sandbox and waits for Ctrl-C.
func (j *job) hold(ctx context.Context, t *plan.Trial, s sandbox.Sandbox) {
	j.progress.close()
	fmt.Fprintf(j.stderr, "\nthe sandbox of %s/%d is standing; its servers answer. To enter:\n", t.Task, t.Number)
	switch e := s.(type) {
	case entrances:
		names := e.Containers()
		for _, container := range slices.Sorted(maps.Keys(names)) {
			fmt.Fprintf(j.stderr, "  %-12s docker exec -it %s sh\n", container, names[container])
		}
		for _, server := range t.Servers {
			if server.Shared {
				fmt.Fprintf(j.stderr, "  %-12s lives for the run; find it by: docker ps --filter label=waza.run=%s\n", server.Name, t.Run)
			}
		}
		fmt.Fprintln(j.stderr, "An image without a shell cannot be entered. Press Ctrl-C to remove the sandbox.")
	case directory:
		fmt.Fprintf(j.stderr, "  cd %s\n", e.Directory()+sandbox.WorkspaceDir)
		fmt.Fprintln(j.stderr, "Nothing is isolated there. Press Ctrl-C to remove it.")
	}
	<-ctx.Done()
}

// backend is what a run's trials run on: containers, or processes of this machine.
type backend interface {
	trial.Backend
	// Prepare has everything there that trials need, or says what is missing.
	Prepare(ctx context.Context, trials []*plan.Trial, say func(string)) error
	// Describe and Images are for run.json.
	Describe() map[string]string
	Images() evidence.ImageRecords
	Close(ctx context.Context) error
}

func (j *job) openBackend(ctx context.Context) (backend, error) {
	if j.options.isolate {
		return containers.Open(ctx, containers.Options{
			Run: j.runID, Resume: j.resumed != nil, Guest: j.guest, Digest: j.digest,
			Network: buildNetwork(j.lookup, j.secrets), Redact: j.secrets.String,
		})
	}
	return local.Open(local.Options{Run: j.runID, Resume: j.resumed != nil, Without: plan.KeyVariables(j.trials)})
}

// warnOf says what failed and harms no trial.
func (j *job) warnOf(err error) { fmt.Fprintf(j.stderr, "warning: %s\n", text.Indented(err.Error())) }

// warn says before anything starts that nothing will be isolated, and what of the
// eval has no effect then.
func (j *job) warn() {
	if j.options.isolate {
		return
	}
	fmt.Fprintln(j.stderr, "without --isolate nothing is isolated: agents and servers run as processes of yours, with your files, network and environment")
	if names := plan.NotEnforced(j.trials); len(names) > 0 {
		fmt.Fprintf(j.stderr, "without --isolate these have no effect: %s\n", strings.Join(names, ", "))
	}
}

// modelScript reads the script of a model that is played in this process. The ids of its
// answers are digests of nothing secret.
func (j *job) modelScript(file string, data []byte) (plan.ModelScript, error) {
	script, err := stub.Parse(file, data)
	if err != nil {
		return nil, err
	}
	clean := func(doc []byte) []byte {
		doc, _ = j.secrets.JSON(doc)
		return doc
	}
	return func() http.Handler { return script.HandlerOver(clean) }, nil
}

func checkModelScript(file string, data []byte) error {
	_, err := stub.Parse(file, data)
	return err
}
