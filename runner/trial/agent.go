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

// agentWork is the phase in which the agent runs.
type agentWork struct {
	stage  *stage
	launch plan.Launch
	out    *outputs
}

// agentRun is how an agent ran.
type agentRun struct {
	notes          []note
	started, ended time.Time // zero if it did not
	exitCode       *int      // nil if not known
	signal         string
	turns          conversed
	commands       []evidence.CommandInvocation // of mocked commands
	miscalled      string                       // which mocked commands were not called as often as expected

	over       bool            // the agent has exited
	used       *evidence.Usage // resources used by its container until its exit; nil if not known
	unexpected bool            // it is a script to which a server did not answer as expected
	stdout     finalOutput     // its output on stdout, if that is its final output
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
	out, err := openOutputs(s.plan, s.rec)
	if err != nil {
		return ran, err
	}
	w := &agentWork{s, launch, out}
	limit, clock := startAgentClock(ctx, s.plan.Timeout)
	defer clock.stop()
	talk := &turnHandler{work: w, clock: clock, started: s.rec.Now()}
	defer clock.begins(s.plan.FirstEvent, &s.acted)()
	program, err := w.startAgent(ctx, talk)
	if err != nil {
		err = s.unlessOutside(ctx, withReason(evidence.ReasonSandbox, hint.Add(fmt.Errorf("agent: %w", err), s.sandbox.Hint(sandbox.Agent))))
		return ran, errors.Join(err, out.close())
	}
	ran.started = s.rec.Now()
	agent := process.Communicate(program, launch.Stdin, out.stdout.unfailing(&s.acted), out.stderr.unfailing(nil))
	defer func() {
		if ran.over = agent.HasEnded(); ran.over {
			err = errors.Join(err, out.close())
			return
		}
		down.add(part{await: func(context.Context) error {
			return errors.Join(outputEnd(agent.Ended(), "the agent's output"), out.close())
		}})
	}()
	watch := s.watch(ctx)
	took := w.await(limit, agent, watch.lost)
	watch.close()
	ran.ended = s.rec.Now()
	if ctx.Err() != nil {
		return ran, context.Cause(ctx)
	}
	ran.commands, ran.miscalled = e.commands.invoked()
	if ran.turns, err = talk.conversed(); err != nil {
		return ran, s.unlessOutside(ctx, err)
	}
	ran.notes = ran.turns.notes
	err = w.judge(ctx, agent, took, &ran)
	return ran, err
}

// judge notes who caused the agent's exit, and keeps its output. It returns an error if that was the
// engine or somebody outside the trial.
func (w *agentWork) judge(ctx context.Context, agent *process.Running, took stopCause, ran *agentRun) error {
	e, err := w.endingOf(ctx, agent, took)
	if err != nil {
		return err
	}
	ran.notes = append(ran.notes, e.notes(w.stage.plan)...)
	if !e.ended {
		return nil // its output may still be written
	}
	if e.lost == nil {
		ran.exitCode, ran.signal = new(e.exit.Code), e.exit.Signal
	}
	var large []note
	ran.stdout, large = w.keepOutput()
	ran.used, ran.unexpected = e.used, e.isUnexpected(w.stage.plan) && conclude(ran.notes).class == ""
	ran.notes = append(ran.notes, large...)
	return nil
}

// endingOf returns how the agent ended.
func (w *agentWork) endingOf(ctx context.Context, agent *process.Running, took stopCause) (e ending, err error) {
	if err := foreignEnding(ctx, w.stage.withAgent()); err != nil {
		return e, err
	}
	e = ending{stopped: took, ended: agent.HasEnded(), container: w.stage.sandbox.Ended(ctx, sandbox.Agent)}
	if err := foreignFault(sandbox.Agent, e.container); err != nil {
		return e, err
	}
	if w.stage.endpoints.models != nil {
		if err := w.stage.endpoints.models.Down(ctx); err != nil {
			return e, &fault{evidence.ReasonModel, err}
		}
	}
	e.overspent = w.stage.endpoints.overspent()
	if !e.ended {
		return e, nil
	}
	e.exit, e.lost = agent.Wait()
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
// wrote nothing to stdout, since it may have failed to start.
func (w *agentWork) exited(code int) error {
	err := fmt.Errorf("the agent exited with code %d", code)
	if adapted := w.stage.plan.Agent.Adapted; adapted != nil && adapted.ExitCodes[code] != "" {
		err = fmt.Errorf("%w: %s", err, adapted.ExitCodes[code])
	}
	if len(w.stage.plan.Agent.Command) > 0 && w.out.stdout.kept.Size() == 0 {
		return hint.Add(err, w.stage.sandbox.Hint(sandbox.Agent))
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

// stopCause is the reason why waiting for an agent ended.
type stopCause int

const (
	byItself       stopCause = iota
	timeLimit                // it reached its time limit
	noFirstEvent             // it did nothing within the time limit for a first event
	outputLimit              // it wrote more than its output limit
	dependencyLost           // something that it needs was lost
	budgetLimit              // it kept asking models after its budget was used up
)

// await waits for the agent to exit. It sends SIGTERM, then SIGKILL, when the agent reaches its
// time or output limit, loses something that it needs, or exhausts its model budget. If SIGKILL
// does not end it either, await returns anyway.
func (w *agentWork) await(limit context.Context, agent *process.Running, lost <-chan struct{}) stopCause {
	var took stopCause
	select {
	case <-agent.Ended():
		return byItself
	case <-w.out.limitReached:
		took = outputLimit
	case <-limit.Done():
		took = timeLimit
		if errors.Is(context.Cause(limit), errNoEvent) {
			took = noFirstEvent
		}
	case <-lost:
		took = dependencyLost
	case <-w.stage.endpoints.exhausted():
		took = budgetLimit
	}
	stop := []process.Step{{Signal: process.Terminate, Grace: stopGrace}, {Signal: process.Kill, Grace: killGrace}}
	if !defence.KilledAgents {
		stop[1].Signal = ""
	}
	agent.Stop(context.Background(), stop...)
	return took
}

// maxFinal is the maximum size of a final output in bytes. It is part of trial.json and of the
// results.
const maxFinal = 16 << 20

// outputs are the agent's stdout and stderr, up to a limit.
type outputs struct {
	stdout, stderr *output
	limitReached   chan struct{} // closed when an output exceeds its limit
	close          func() error  // closes both files; may be called again
}

// output is one of the agent's outputs, which is written to a file.
type output struct {
	io.WriteCloser
	name string
	kept *bounded.Head // what is in the file
}

func (o *outputs) both() []*output { return []*output{o.stdout, o.stderr} }

// openOutputs creates the files of the agent's outputs.
func openOutputs(t *plan.Trial, rec *evidence.Recorder) (*outputs, error) {
	out := &outputs{limitReached: make(chan struct{})}
	flood := sync.OnceFunc(func() { close(out.limitReached) })
	open := func(stream, file string) (*output, error) {
		kept := &bounded.Head{Limit: t.Agent.OutputLimit(), Fail: errTooLarge, Full: flood}
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

// keepOutput returns the final output, if it is read from stdout, and records which outputs were
// truncated. The outputs are closed.
func (w *agentWork) keepOutput() (final finalOutput, notes []note) {
	for _, o := range w.out.both() {
		if o.kept.Over() > 0 {
			message := fmt.Sprintf("only the first %d bytes of %s are kept", o.kept.Limit, o.name)
			w.stage.rec.Event(evidence.Event{Kind: "limit", Where: sandbox.Agent, Message: message})
		}
	}
	return stdoutOf(w.stage.plan, w.stage.rec, false)
}

// finalOutput is a final output, or that of all turns, with secrets replaced.
type finalOutput struct {
	text  string
	spans []secret.Span // where secrets were
}

// stdoutOf reads a final output from the file of stdout, if it is read from there.
func stdoutOf(t *plan.Trial, rec *evidence.Recorder, midway bool) (final finalOutput, notes []note) {
	if cmp.Or(t.Agent.Output, plan.OutputStdout) != plan.OutputStdout {
		return final, nil
	}
	file, err := os.Open(filepath.Join(rec.Dir(), evidence.StdoutFile))
	if err == nil {
		final.text, err = readHead(file)
		err = errors.Join(err, file.Close())
	}
	final.spans = rec.Redacted()[evidence.StdoutFile].Marks.Spans("", false)
	switch {
	case errors.Is(err, errTooLarge):
		notes = tooLarge(midway)
	case err != nil:
		notes = []note{gapNote(evidence.GapFinalOutput, err.Error())}
	}
	return final, notes
}
