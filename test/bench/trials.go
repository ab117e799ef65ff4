package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// port is the port that the peer listens on in its container.
const port = 8931

// settings holds what differs between the measured evals.
type settings struct {
	network string
	agent   string // additional lines of config: the executor and its settings
	script  string // script of the task; none if empty
	servers string // additional servers
}

// evalText returns an eval with a stdio and an HTTP server.
func (b *bench) evalText(s settings) string {
	return fmt.Sprintf(`name: bench
config:
  trials_per_task: 1
  timeout_seconds: 120
  isolation: {network: %s, runtime: %q, agent: {%s}}
%s
  mcp_servers:
    stock: {image: %q, pull: never, command: /peer, args: [stdio]}
    web: {image: %q, pull: never, command: /peer, args: [http, "127.0.0.1:%d"], port: %d}
%s
tasks: [task.yaml]
`, s.network, b.runtime, b.agentImage(s), s.agent, b.image, b.image, port, port, s.servers)
}

func (b *bench) agentImage(s settings) string {
	if s.script != "" {
		return ""
	}
	return fmt.Sprintf("image: %q", b.image)
}

// oneCall returns settings of an eval whose agent makes one call.
func oneCall(network string) settings {
	return settings{network: network, agent: "  executor: script", script: `script:
  - call: {server: stock, tool: echo, arguments: {text: hello}}
  - say: done
`}
}

// writeEval writes an eval into a new directory and returns its path.
func (b *bench) writeEval(s settings) (string, error) {
	dir, err := os.MkdirTemp(b.dir, "eval-")
	if err != nil {
		return "", err
	}
	task := "id: t\ninputs: {prompt: x}\n" + s.script
	if err := os.WriteFile(filepath.Join(dir, "task.yaml"), []byte(task), 0o600); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "eval.yaml")
	return path, os.WriteFile(path, []byte(b.evalText(s)), 0o600)
}

// plan plans one trial and prepares its images.
func (b *bench) plan(ctx context.Context, s settings) (*plan.Trial, error) {
	path, err := b.writeEval(s)
	if err != nil {
		return nil, err
	}
	e, tasks, err := eval.Load(path, eval.Options{})
	if err != nil {
		return nil, err
	}
	none := func(string) (string, bool) { return "", false }
	trials, err := plan.Plan(e, tasks, plan.Choices{Run: b.run, Lookup: none, Secrets: b.secrets})
	if err != nil {
		return nil, err
	}
	return trials[0], b.backend.Prepare(ctx, plan.Specs(trials), func(string) {})
}

// outcome is the result of trials that were run.
type outcome struct {
	took time.Duration // from the start of the first until everything is removed
	dirs []evidence.Dir
}

// trialsOf runs a trial count times with a number of workers. It fails if one does not
// pass. If hold is not nil, each trial calls it at the end, before its sandbox is removed.
func (b *bench) trialsOf(ctx context.Context, trial *plan.Trial, count, workers int, hold func(context.Context, *plan.Trial) error) (outcome, error) {
	var held error
	o := runner.Options{Workers: workers, Progress: func(runner.Update) {}}
	if hold != nil {
		o.Host.Hold = func(ctx context.Context, t *plan.Trial, _ sandbox.Sandbox) { held = hold(ctx, t) }
	}
	out, err := b.runTrials(ctx, trial, count, o)
	return out, errors.Join(err, held)
}

// runTrials runs a trial count times with o. It fails if one does not pass.
func (b *bench) runTrials(ctx context.Context, trial *plan.Trial, count int, o runner.Options) (outcome, error) {
	dir, err := os.MkdirTemp(b.dir, "run-")
	if err != nil {
		return outcome{}, err
	}
	trials := make([]*plan.Trial, count)
	for i := range trials {
		b.trials++
		one := *trial
		one.Number = b.trials
		trials[i] = &one
	}
	o.Dir, o.Host.Secrets = dir, b.secrets
	began := time.Now()
	dirs, err := runner.RunTrials(ctx, b.backend, trials, o)
	out := outcome{took: time.Since(began), dirs: dirs}
	if err != nil {
		return out, err
	}
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	for _, dir := range dirs {
		v, err := dir.Verdicts()
		if err == nil && v.Class != evidence.ClassPass {
			err = fmt.Errorf("trial %s did not pass: %s: %s", filepath.Base(string(dir)), v.Class, v.Message)
		}
		if err != nil {
			return out, err
		}
	}
	if len(dirs) != count {
		return out, fmt.Errorf("%d of %d trials have a result", len(dirs), count)
	}
	return out, nil
}

// subject is a trial to measure and its floor.
type subject struct {
	network string
	trial   *plan.Trial
	floor   shape
}

// newSubject plans a trial and runs it once to record its shape.
func (b *bench) newSubject(ctx context.Context, network string) (subject, error) {
	s := subject{network: network}
	var err error
	if s.trial, err = b.plan(ctx, oneCall(network)); err != nil {
		return s, err
	}
	_, err = b.trialsOf(ctx, s.trial, 1, 1, func(ctx context.Context, t *plan.Trial) (err error) {
		s.floor, err = b.shapeOf(ctx, t.Task+"/"+strconv.Itoa(t.Number))
		return err
	})
	return s, err
}
