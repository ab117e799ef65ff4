package main

import (
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
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/model/stub"
	"github.com/waza-isolate/waza/report/terminal"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/local"
)

// job is one waza run.
type job struct {
	*runner.Job
	*state
	options  runOptions
	progress *progress // nil until trials are about to run
}

// dryRun prints the plan of each trial.
func (j *job) dryRun() error {
	for _, t := range j.Trials {
		if _, err := fmt.Fprintln(j.stdout, text.InertLines(j.options.Secrets.String(t.String()))); err != nil {
			return err
		}
	}
	return nil
}

// runNew is run in a directory that the command line names, or a new one.
func (j *job) runNew(ctx context.Context) error {
	dir, err := j.chooseRunDir()
	if err != nil {
		return err
	}
	ctx, stop := interruptible(ctx, j.stderr)
	defer stop()
	return j.run(ctx, dir)
}

// run runs the trials in a new or empty directory, and prints what came out.
func (j *job) run(ctx context.Context, dir string) error {
	out, err := runner.Run(ctx, j.Job, dir)
	return j.finish(out, err)
}

// finish prints what came out of a run.
func (j *job) finish(out runner.Outcome, err error) error {
	if out.Dir == "" {
		return infra(err)
	}
	if out.Reported && j.Job != nil {
		err = errors.Join(err, j.export(out.Dir, out.Results))
	}
	shown := j.showAs(out.Shown(), j.options)
	if j.options.format == formatDefault {
		j.epilogue(out)
	}
	switch {
	case err != nil:
		return &exitError{exitInfra, errors.Join(err, shown)}
	case shown != nil:
		return shown
	}
	return exitWith(out.ExitCode())
}

// epilogue says what did not pass and why, and where the evidence is.
func (j *job) epilogue(out runner.Outcome) {
	end := terminal.Ending{Run: out.Shown(), Style: j.styleOf(j.stdout), Resumable: out.Resumable()}
	for _, r := range out.Trials {
		end.Trials = append(end.Trials, ended(r))
	}
	page := filepath.Join(out.Dir, runner.ReportFile)
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

// chooseRunDir names the run directory, which must be new or empty.
func (j *job) chooseRunDir() (string, error) {
	dir := j.options.runDir
	if dir == "" {
		return filepath.Join(".waza", "runs", j.ID), nil
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

// host is what a run finds in this process. shown becomes the progress of its trials.
func (s *state) host(o runOptions, shown **progress) runner.Host {
	secrets := &redact.Set{}
	h := runner.Host{
		Waza: s.version, Build: s.buildID, Lookup: s.lookup, Secrets: secrets, Certificates: certificateCache(),
		CheckScript: checkScript, CheckModelScript: checkModelScript,
		Connect: newJudges(s, secrets).connect, Notice: s.warnOnce,
		Warn: s.warn,
		Say: func(what string) {
			if o.loudness != quiet {
				s.sayTo(what)
			}
		},
		// The ids of the answers of a model that is played are digests of nothing secret.
		ModelScript: func(file string, data []byte) (plan.ModelScript, error) {
			script, err := stub.Parse(file, data)
			if err != nil {
				return nil, err
			}
			clean := func(doc []byte) []byte {
				doc, _ = secrets.JSON(doc)
				return doc
			}
			return func() http.Handler { return script.HandlerOver(clean) }, nil
		},
		Open: func(ctx context.Context, j *runner.Job) (runner.Backend, error) {
			if j.Isolated() {
				return containers.Open(ctx, containers.Options{
					Run: j.ID, Resume: j.Resumed(), Guest: s.guest, Digest: s.digest,
					Network: buildNetwork(s.lookup, secrets), Redact: secrets.String,
				})
			}
			s.warnOfNoIsolation(j.Trials)
			return local.Open(local.Options{Run: j.ID, Resume: j.Resumed(), Without: plan.KeyVariables(j.Trials)})
		},
		Watch: func(ctx context.Context, trials, workers int) (func(runner.Update), func()) {
			*shown = newProgress(ctx, s.screen(), s.lookup, o.loudness, trials, workers)
			return (*shown).update, (*shown).close
		},
	}
	if o.loudness == loud {
		h.ServerLog = func(t *plan.Trial, server string) io.Writer {
			return &lineWriter{out: s.stderr, prefix: fmt.Sprintf("[%s/%d %s] ", t.Task, t.Number, server), secrets: secrets}
		}
	}
	if o.keep {
		h.Hold = func(ctx context.Context, t *plan.Trial, sandbox sandbox.Sandbox) {
			(*shown).close()
			s.hold(ctx, t, sandbox)
		}
	}
	return h
}

// sayTo says what takes a while.
func (s *state) sayTo(what string) { fmt.Fprintln(s.stderr, text.Inert(what)) }

// screen is where the command says what it does.
func (s *state) screen() *screen {
	if screen, ok := s.stderr.(*screen); ok {
		return screen
	}
	return &screen{out: s.stderr}
}

// hold tells how to enter a sandbox and waits for Ctrl-C.
func (s *state) hold(ctx context.Context, t *plan.Trial, b sandbox.Sandbox) {
	fmt.Fprintf(s.stderr, "\nthe sandbox of %s/%d is standing; its servers answer. To enter:\n", t.Task, t.Number)
	switch e := b.(type) {
	case entrances:
		names := e.Containers()
		for _, container := range slices.Sorted(maps.Keys(names)) {
			fmt.Fprintf(s.stderr, "  %-12s docker exec -it %s sh\n", container, names[container])
		}
		for _, server := range t.Servers {
			if server.Shared {
				fmt.Fprintf(s.stderr, "  %-12s lives for the run; find it by: docker ps --filter label=waza.run=%s\n", server.Name, t.Run)
			}
		}
		fmt.Fprintln(s.stderr, "An image without a shell cannot be entered. Press Ctrl-C to remove the sandbox.")
	case directory:
		fmt.Fprintf(s.stderr, "  cd %s\n", e.Directory()+sandbox.WorkspaceDir)
		fmt.Fprintln(s.stderr, "Nothing is isolated there. Press Ctrl-C to remove it.")
	}
	<-ctx.Done()
}

// entrances is what a sandbox of containers tells a person who wants to enter.
type entrances interface{ Containers() map[string]string }

// directory is what a sandbox of processes tells.
type directory interface{ Directory() string }

// warnOfNoIsolation says before anything starts that nothing will be isolated, and what of
// the eval has no effect then.
func (s *state) warnOfNoIsolation(trials []*plan.Trial) {
	fmt.Fprintln(s.stderr, "without --isolate nothing is isolated: agents and servers run as processes of yours, with your files, network and environment")
	if names := plan.NotEnforced(trials); len(names) > 0 {
		fmt.Fprintf(s.stderr, "without --isolate these have no effect: %s\n", strings.Join(names, ", "))
	}
}

func checkModelScript(file string, data []byte) error {
	_, err := stub.Parse(file, data)
	return err
}
