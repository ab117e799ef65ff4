package main

import (
	"context"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/containers"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/sandbox/local"
)

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
		Dir: c.String("resume"), Eval: c.Args().First(), Workers: o.Workers, Parallel: o.Parallel, HostHooks: o.HostHooks,
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
var harmless = []string{"resume", "isolate", "workers", "parallel", "output", "format", "v", "debug", "q", "reporter", "output-dir", "transcript-dir", "session-log", "session-dir", "no-update-check", "no-cache", "no-summary", "allow-host-hooks", judgeURL, judgeKeyEnv}

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
