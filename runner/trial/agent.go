package trial

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

const (
	// stopGrace is what an agent gets between SIGTERM and SIGKILL.
	stopGrace = 2 * time.Second
	// killGrace is how long after SIGKILL its container may take to say that it ended.
	killGrace = 10 * time.Second
)

// agentWork is the phase in which the agent works.
type agentWork struct {
	*stage
	endpoints *endpoints
	used      *evidence.Usage // by the agent's container up to its end; nil where that could not be seen
}

// run runs the agent to its end or its time limit. An agent that was started is returned
// also where something failed.
func (w *agentWork) run(ctx context.Context) (*agentProcess, error) {
	l, err := w.plan.Launch(sandbox.LayoutOf(w.sandbox, sandbox.Agent), w.found)
	if err != nil {
		return nil, err
	}
	if err := w.put(ctx, sandbox.Agent, "/", l.Files); err != nil {
		return nil, w.excused(ctx, because(evidence.ReasonSandbox, err))
	}
	stdout, stderr, err := w.openOutputs()
	if err != nil {
		return nil, err
	}
	limit, clock := startAgentClock(ctx, w.plan.Timeout)
	defer clock.stop()
	talk := &talk{work: w, clock: clock, started: w.rec.Now()}
	defer clock.begins(w.plan.FirstEvent, &w.acted)()
	agent, err := w.startAgent(ctx, l, talk)
	if err != nil {
		err = w.excused(ctx, because(evidence.ReasonSandbox, advised(w.sandbox, sandbox.Agent, fmt.Errorf("agent: %w", err))))
		return nil, errors.Join(err, stdout.file.Close(), stderr.file.Close())
	}
	w.record.AgentStart = w.rec.Now()
	attended := attend(agent, l.Stdin, stdout, stderr)
	watch := w.watch(ctx)
	took := attended.await(limit, watch.lost, w.endpoints.exhausted())
	if took == overrun && errors.Is(context.Cause(limit), errNoEvent) {
		took = silent
	}
	watch.close()
	w.record.AgentEnd = w.rec.Now()
	if ctx.Err() != nil {
		return attended, context.Cause(ctx)
	}
	w.endpoints.commands.end()
	if err := talk.end(); err != nil {
		return attended, w.excused(ctx, err)
	}
	return attended, w.judge(ctx, attended, took)
}

// judge decides who caused the agent's end. It returns an error if that was somebody outside
// the trial, or the engine. Everything else is blamed on the agent, even a broken container:
// otherwise an agent could break its own to avoid being graded. A limit that it ran into says
// more than how it ended.
func (w *agentWork) judge(ctx context.Context, a *agentProcess, took span) error {
	if err := w.foreignEnding(ctx); err != nil {
		return err
	}
	own := sandbox.EndedOf(ctx, w.sandbox, sandbox.Agent)
	if err := foreignFault(sandbox.Agent, own); err != nil {
		return err
	}
	if w.endpoints.models != nil {
		if err := w.endpoints.models.Down(ctx); err != nil {
			return &fault{evidence.ReasonModel, err}
		}
	}
	if !a.endsWithin(0) {
		w.gap(evidence.GapFinalOutput, errors.New("the agent did not end"))
		switch took {
		case overrun, silent:
			w.blameTime(took, " and did not end when it was killed")
		case flooded:
			w.blame(evidence.ClassAgentError, evidence.ReasonOutput, "the agent wrote more than it may and did not end when it was killed")
		case overbid:
			w.blame(evidence.ClassAgentError, evidence.ReasonBudget, w.endpoints.overspent()+", and the agent did not end when it was killed")
		default:
			w.blame(evidence.ClassAgentError, evidence.ReasonGuest, "the agent did not end when it was killed")
		}
		return nil // its output goes on
	}
	if a.err == nil {
		w.record.ExitCode, w.record.Signal = new(a.exit.Code), a.exit.Signal
	}
	if took == overrun || took == silent {
		w.blameTime(took, "")
	}
	for _, b := range w.breaches(ctx, a) {
		w.blame(evidence.ClassAgentError, b.reason, b.message)
	}
	switch {
	case w.record.Class != "":
	case a.err != nil || own.Cause != "":
		if own.Cause == "" {
			own.Message = a.err.Error()
		}
		w.blameGuest(own)
	case a.exit.Signal != "":
		w.blame(evidence.ClassAgentError, evidence.ReasonSignal, "the agent was ended by "+a.exit.Signal)
	case a.exit.Code != 0:
		w.blame(evidence.ClassAgentError, evidence.ReasonExitCode, w.exited(a).Error())
	}
	w.keepOutput(a.stdout, a.stderr)
	return nil
}

// blameTime blames the agent for a limit of its time.
func (w *agentWork) blameTime(took span, and string) {
	if took == silent {
		w.blame(evidence.ClassTimeout, evidence.ReasonNoEvent, fmt.Sprintf("the agent said nothing, asked no model and called no tool within %s%s", w.plan.FirstEvent, and))
		return
	}
	w.blame(evidence.ClassTimeout, evidence.ReasonTimeLimit, fmt.Sprintf("the agent ran longer than %s%s", w.plan.Timeout, and))
}

// blameGuest blames the agent for what became of its container's guest.
func (w *agentWork) blameGuest(e sandbox.Exit) {
	reason := evidence.ReasonGuest
	if e.Cause == sandbox.ByBreach {
		reason = evidence.ReasonMux
	}
	w.blame(evidence.ClassAgentError, reason, "the agent broke its container's guest: "+e.Message)
}

// exited is what to say of an agent that ended badly by itself. One that is
// somebody's program and said nothing may never have come up.
func (w *agentWork) exited(a *agentProcess) error {
	err := fmt.Errorf("the agent exited with code %d", a.exit.Code)
	if adapted := w.plan.Agent.Adapted; adapted != nil && adapted.ExitCodes[a.exit.Code] != "" {
		err = fmt.Errorf("%w: %s", err, adapted.ExitCodes[a.exit.Code])
	}
	if len(w.plan.Agent.Command) > 0 && a.stdout.size == 0 {
		return advised(w.sandbox, sandbox.Agent, err)
	}
	return err
}

// breach is a limit that the agent ran into.
type breach struct {
	reason  evidence.Reason
	message string
}

// breaches are the limits that the agent ran into, the one that ended it first. To be
// ended by the kernel for want of memory, or by us for what it wrote, shows as a
// signal otherwise.
func (w *agentWork) breaches(ctx context.Context, a *agentProcess) []breach {
	var all []breach
	for _, o := range []*output{a.stdout, a.stderr} {
		if o.isOver() {
			all = append(all, breach{evidence.ReasonOutput, fmt.Sprintf("the agent wrote more than %d bytes to %s", o.limit, o.name)})
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), measureTimeout)
	defer cancel()
	if used, err := sandbox.UsageOf(ctx, w.sandbox, sandbox.Agent); err == nil {
		w.used = &used
		for _, b := range used.Breaches() {
			all = append(all, breach{evidence.Reason(b.Kind), "the agent's container " + b.What})
		}
	}
	if why := w.endpoints.overspent(); why != "" {
		all = append(all, breach{evidence.ReasonBudget, why})
	}
	return all
}

// agentProcess is an agent under way: it is fed, and what it says is kept.
type agentProcess struct {
	agent          process.Process
	stdout, stderr *output
	ended          chan struct{} // closed when it has ended and its output is kept
	flooded        chan struct{} // closed when it has written more than it may

	// Set before ended is closed.
	exit process.Exit
	err  error // of Wait: there is no exit
	kept error // what of its output could not be written
}

func attend(agent process.Process, stdin []byte, stdout, stderr *output) *agentProcess {
	a := &agentProcess{agent: agent, stdout: stdout, stderr: stderr, ended: make(chan struct{}), flooded: make(chan struct{})}
	flood := sync.OnceFunc(func() { close(a.flooded) })
	stdout.flood, stderr.flood = flood, flood
	go a.see(stdin)
	return a
}

// see lasts as long as the agent, or its sandbox.
func (a *agentProcess) see(stdin []byte) {
	defer close(a.ended)
	a.exit, a.err = process.Attend(a.agent, stdin, a.stdout, a.stderr)
	a.kept = errors.Join(a.stdout.close(), a.stderr.close())
}

// span is why waiting for an agent ended.
type span int

const (
	inTime  span = iota
	overrun      // the limit of its time came first
	silent       // it did nothing in the time in which it must begin
	flooded      // it wrote more than it may
	cutOff       // what it needs was lost
	overbid      // it asked models for more than it may, over and over
)

// await waits for the agent to end. It sends SIGTERM, then SIGKILL, when the agent reaches
// its time or output limit, loses something that it needs, or has used up its models. If
// SIGKILL does not end it either, await returns anyway.
func (a *agentProcess) await(limit context.Context, lost, exhausted <-chan struct{}) span {
	var took span
	select {
	case <-a.ended:
		return inTime
	case <-a.flooded:
		took = flooded
	case <-limit.Done():
		took = overrun
	case <-lost:
		took = cutOff
	case <-exhausted:
		took = overbid
	}
	_ = a.agent.Signal(process.Terminate)
	if !a.endsWithin(stopGrace) {
		if defence.KilledAgents {
			_ = a.agent.Signal(process.Kill)
		}
		a.endsWithin(killGrace)
	}
	return took
}

func (a *agentProcess) endsWithin(d time.Duration) bool {
	select {
	case <-a.ended:
		return true
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-a.ended:
		return true
	case <-timer.C:
		return false
	}
}

const (
	// maxFinal is how many bytes a final output may have. It stands in trial.json
	// and in the results.
	maxFinal = 16 << 20
)

// output keeps the beginning of one of the agent's outputs. Writing to it never
// fails: what cannot be kept is no reason to hold the agent up.
type output struct {
	name  string
	limit int64        // bytes
	flood func()       // called whenever more has come
	acted *atomic.Bool // set when something comes; nil where that tells nothing
	file  io.WriteCloser
	head  *bytes.Buffer // the final output; nil where that is not here
	size  int64         // bytes that came
	err   error         // the first one of the file
	share *bounded.Budget
	spent bool // something did not fit into the share
}

// isOver says whether more came than may. It is to be asked when the output is at
// its end.
func (o *output) isOver() bool { return defence.BoundedOutput && o.size > o.limit }

// openOutputs makes the files of the agent's outputs. Stdout is kept in memory
// too where it is the final output.
func (w *agentWork) openOutputs() (stdout, stderr *output, err error) {
	limit := w.plan.Agent.OutputLimit()
	share := w.shares.Agent
	stdout, stderr = &output{name: "stdout", limit: limit, share: share}, &output{name: "stderr", limit: limit, share: share}
	stdout.acted = &w.acted
	if cmp.Or(w.plan.Agent.Output, plan.OutputStdout) == plan.OutputStdout {
		stdout.head = &bytes.Buffer{}
	}
	if stdout.file, err = w.rec.Text(evidence.StdoutFile); err != nil {
		return nil, nil, err
	}
	if stderr.file, err = w.rec.Text(evidence.StderrFile); err != nil {
		return nil, nil, errors.Join(err, stdout.file.Close())
	}
	return stdout, stderr, nil
}

func (o *output) Write(p []byte) (int, error) {
	if o.acted != nil {
		o.acted.Store(true)
	}
	kept := p
	if defence.BoundedOutput {
		kept = upTo(p, o.limit-o.size)
		o.spent = o.spent || !o.share.Take(int64(len(kept)))
	}
	if o.head != nil && !o.spent {
		o.head.Write(upTo(p, maxFinal-o.size))
	}
	if o.err == nil && !o.spent {
		_, o.err = o.file.Write(kept)
	}
	o.size += int64(len(p))
	if o.isOver() || o.spent {
		o.flood()
	}
	return len(p), nil
}

// upTo is the first n bytes of p, or all that there are.
func upTo(p []byte, n int64) []byte { return p[:max(0, min(n, int64(len(p))))] }

func (o *output) close() error { return errors.Join(o.err, o.file.Close()) }

// keepOutput takes the final output from stdout, where it comes from there, and
// says what of the outputs was not kept.
func (w *agentWork) keepOutput(stdout, stderr *output) {
	for _, o := range []*output{stdout, stderr} {
		if o.isOver() {
			message := fmt.Sprintf("only the first %d of %d bytes of %s are kept", o.limit, o.size, o.name)
			w.rec.Event(evidence.Event{Kind: "limit", Where: sandbox.Agent, Message: message})
		}
		if o.spent {
			w.rec.Event(evidence.Event{Kind: "limit", Where: sandbox.Agent, Message: fmt.Sprintf("%s is cut off where the agent's share of the evidence, %d bytes, is full", o.name, o.share.Max())})
		}
	}
	if stdout.head == nil {
		return
	}
	w.record.FinalOutput = stdout.head.String()
	if stdout.size > maxFinal {
		w.outputTooLarge()
	}
}
