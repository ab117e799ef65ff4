package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/hint"
	"github.com/waza-isolate/waza/sandbox/process"
)

const (
	// stopGrace is the time between SIGTERM and SIGKILL.
	stopGrace = 2 * time.Second
	// killGrace is how long to wait for the agent's exit after SIGKILL.
	killGrace = 10 * time.Second
)

// agentWork is an agent at work.
type agentWork struct {
	stage  *stage
	launch plan.Launch
	out    *outputs
	stops  *stops
}

// agentRun is how an agent ran.
type agentRun struct {
	started, ended time.Time // zero if it did not
	drained        time.Time // when its sessions with servers had ended
	turns          conversed
	ending         *ending                      // nil if not known
	commands       []evidence.CommandInvocation // of mocked commands
	miscalled      string                       // which mocked commands were not called as often as expected
	unmet          string                       // how a server's request violated its schema, or ""
	refused        []string                     // which API keys models rejected, and what to do

	stdout   finalOutput // its output on stdout, if that is its final output
	overlong bool        // stdout is only the beginning of it
}

// used returns the resources that the agent's container used until the agent's exit, or nil if that is not known.
func (r agentRun) used() *evidence.Usage {
	if r.ending == nil {
		return nil
	}
	return r.ending.used
}

// runAgent runs the agent until it exits or reaches its time limit. It returns an error only
// for failures that the agent did not cause. The agentRun is valid also on error.
func runAgent(ctx context.Context, s *stage, down *teardown) (ran agentRun, err error) {
	e := s.endpoints
	launch, err := s.plan.Launch(s.sandbox.Layout(sandbox.Agent), e.addresses, s.servers.noDiscover())
	if err != nil {
		return ran, err
	}
	if err := put(ctx, s.sandbox, sandbox.Agent, launch.Files); err != nil {
		return ran, s.unlessOutside(ctx, withReason(evidence.ReasonSandbox, err))
	}
	stops := newStops(s.log.Now)
	out, err := openOutputs(s.plan, s.log.Recorder, stops)
	if err != nil {
		return ran, err
	}
	w := &agentWork{s, launch, out, stops}
	clock := startAgentClock(s.plan.Timeout, stops)
	defer clock.stop()
	talk := &turnHandler{work: w, clock: clock, started: s.log.Now()}
	defer clock.begins(s.plan.FirstEvent, s.log.acted)()
	program, err := w.startAgent(ctx, talk)
	if err != nil {
		special := hint.IfDenied(err.Error(), s.sandbox.Hint(sandbox.Agent))
		err = s.unlessOutside(ctx, withReason(evidence.ReasonSandbox, hint.Add(fmt.Errorf("agent: %w", err), special)))
		return ran, errors.Join(err, out.close())
	}
	ran.started = s.log.Now()
	agent := process.Communicate(program, launch.Stdin, out.stdout.unfailing(s.log.acted), out.stderr.unfailing(nil))
	defer func() {
		if agent.HasEnded() {
			err = errors.Join(err, out.close())
			return
		}
		down.add(part{await: func(context.Context) error {
			return errors.Join(outputEnd(agent.Ended(), "the agent's output"), out.close())
		}})
	}()
	watch := s.watch(ctx, stops)
	stopped := w.await(ctx, agent)
	watch.close()
	ran.ended = s.log.Now()
	if ctx.Err() != nil {
		return ran, context.Cause(ctx)
	}
	ran.commands, ran.miscalled = e.commands.invoked()
	if ran.turns, err = talk.conversed(); err != nil {
		return ran, s.unlessOutside(ctx, err)
	}
	if ran.ending, err = w.endingOf(ctx, agent, stopped); err != nil || !ran.ending.ended {
		return ran, err // an agent that has not ended may still write
	}
	ran.stdout, ran.overlong, err = w.keepOutput()
	return ran, err
}

// endingOf returns how the agent ended. It returns an error if the engine or somebody outside the
// trial ended it.
func (w *agentWork) endingOf(ctx context.Context, agent *process.Running, stopped []stop) (*ending, error) {
	e := &ending{stops: stopped, ended: agent.HasEnded()}
	if e.ended {
		e.exit, e.lost = agent.Wait()
	}
	failed := !e.ended || e.lost != nil || e.exit.Code != 0
	if err := foreignEnding(ctx, w.stage.members(), failed); err != nil {
		return nil, err
	}
	e.container = w.stage.sandbox.Ended(ctx, sandbox.Agent)
	if err := foreignFault(sandbox.Agent, e.container); err != nil {
		return nil, err
	}
	if w.stage.endpoints.models != nil {
		if err := w.stage.endpoints.models.Down(ctx); err != nil {
			return nil, &fault{evidence.ReasonModel, err}
		}
	}
	if !e.ended {
		return e, nil
	}
	_ = w.out.close() // runAgent returns its error
	e.failed, e.used = w.exited(e.exit.Code), w.used(ctx)
	for _, o := range w.out.both() {
		if o.kept.Over() > 0 {
			e.floods = append(e.floods, fmt.Sprintf("%d bytes to %s", o.kept.Limit, o.name))
		}
	}
	return e, nil
}

// exited returns the error for an exit with a nonzero code. It adds a hint if a custom command
// wrote nothing to stdout, since it may have failed to start. The files of its outputs must be closed.
func (w *agentWork) exited(code int) error {
	err := fmt.Errorf("the agent exited with code %d", code)
	if adapted := w.stage.plan.Agent.Adapted; adapted != nil && adapted.ExitCodes[code] != "" {
		err = fmt.Errorf("%w: %s", err, adapted.ExitCodes[code])
	}
	if len(w.stage.plan.Agent.Command) > 0 && w.out.stdout.kept.Size() == 0 {
		said := evidence.Dir(w.stage.log.Dir()).StderrEnds()
		return hint.Add(err, hint.IfDenied(said, w.stage.sandbox.Hint(sandbox.Agent)))
	}
	return err
}

// used returns the resources that the agent's container used, or nil if that is not known.
func (w *agentWork) used(ctx context.Context) *evidence.Usage {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), measureTimeout)
	defer cancel()
	used, err := w.stage.sandbox.Usage(ctx, sandbox.Agent)
	if err != nil {
		return nil
	}
	return &used
}

// await waits for the agent to exit, and returns the reasons to stop it that were known by then. At
// the first reason, or when ctx is done, it sends SIGTERM, then SIGKILL. If the agent survives
// SIGKILL, await returns anyway.
func (w *agentWork) await(ctx context.Context, agent *process.Running) []stop {
	select {
	case <-agent.Ended():
		return w.stops.soFar()
	case <-w.stops.first:
	case <-ctx.Done():
	case <-w.stage.endpoints.exhausted():
		w.stops.add(budgetLimit)
	case <-w.stage.log.misses.known:
		w.stops.add(noAnswer)
	}
	steps := []process.Step{{Signal: process.Terminate, Grace: stopGrace}, {Signal: process.Kill, Grace: killGrace}}
	if !defence.KilledAgents {
		steps[1].Signal = ""
	}
	agent.Stop(context.Background(), steps...)
	return w.stops.soFar()
}

// maxFinal is the maximum size of a final output in bytes. It is part of trial.json and of the
// results.
const maxFinal = 16 << 20

// outputs are the agent's stdout and stderr, up to a limit.
type outputs struct {
	stdout, stderr *output
	close          func() error // closes both files; may be called again
}

// output is one of the agent's outputs, which is written to a file.
type output struct {
	io.WriteCloser
	name string
	kept *bounded.Head // what is in the file
}

func (o *outputs) both() []*output { return []*output{o.stdout, o.stderr} }

// openOutputs creates the files of the agent's outputs. An output that exceeds its limit is added
// to stops.
func openOutputs(t *plan.Trial, rec *evidence.Recorder, stops *stops) (*outputs, error) {
	out := &outputs{}
	open := func(stream, file string) (*output, error) {
		kept := &bounded.Head{Limit: t.Agent.OutputLimit(), Fail: errTooLarge, Full: func() { stops.add(outputLimit) }}
		if !defence.BoundedOutput {
			kept.Limit = math.MaxInt64
		}
		w, err := rec.Text(file, kept)
		return &output{w, stream, kept}, err
	}
	var err error
	if out.stdout, err = open("stdout", evidence.StdoutFile); err != nil {
		return nil, err
	}
	if out.stderr, err = open("stderr", evidence.StderrFile); err != nil {
		return nil, errors.Join(err, out.stdout.Close())
	}
	out.close = sync.OnceValue(func() error { return errors.Join(out.stdout.Close(), out.stderr.Close()) })
	return out, nil
}

// unfailing returns a writer to the output that never returns an error, so that the agent is
// not blocked if its output cannot be written; the recorder reports the error. If acted is not
// nil, it is set on the first write.
func (o *output) unfailing(acted *atomic.Bool) io.Writer {
	return writerFunc(func(p []byte) {
		if acted != nil {
			acted.Store(true)
		}
		_, _ = o.Write(p)
	})
}

// writerFunc is an io.Writer that never fails.
type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// keepOutput closes the outputs. It returns the final output, if that is on stdout, and whether it
// was truncated. It records which outputs were truncated.
func (w *agentWork) keepOutput() (final finalOutput, overlong bool, err error) {
	for _, o := range w.out.both() {
		if o.kept.Over() > 0 {
			message := fmt.Sprintf("only the first %d bytes of %s are kept", o.kept.Limit, o.name)
			w.stage.log.Recorder.Event(evidence.Event{Kind: "limit", Where: sandbox.Agent, Message: message})
		}
	}
	return stdoutOf(w.stage.plan, w.stage.log.Recorder)
}

// finalOutput is the final output of one or all turns, with secrets replaced.
type finalOutput struct {
	text  string
	spans []secret.Span // where secrets were
}

// stdoutOf reads the final output from the file of stdout, if it is there, and reports whether it
// was truncated.
func stdoutOf(t *plan.Trial, rec *evidence.Recorder) (final finalOutput, overlong bool, err error) {
	if cmp.Or(t.Agent.Output, plan.OutputStdout) != plan.OutputStdout {
		return final, false, nil
	}
	file, err := os.Open(filepath.Join(rec.Dir(), evidence.StdoutFile))
	if err != nil {
		return final, false, err
	}
	final.text, err = readHead(file)
	final.spans = secret.First(rec.Redacted()[evidence.StdoutFile].Marks.Spans(""), int64(len(final.text)))
	closed := file.Close()
	if errors.Is(err, errTooLarge) {
		return final, true, closed
	}
	return final, false, errors.Join(err, closed)
}
