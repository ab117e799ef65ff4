package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/waza-isolate/waza/runner/evidence"
	"github.com/waza-isolate/waza/runner/process"
)

const (
	// stopGrace is what an agent gets between SIGTERM and SIGKILL.
	stopGrace = 2 * time.Second
	// killGrace is how long after SIGKILL its box may take to say that it ended.
	killGrace = 10 * time.Second
)

// runAgent runs the agent to its end or its time limit.
func (tr *trialRun) runAgent(ctx context.Context) error {
	l, err := launchOf(tr.plan, tr.sandbox.Layout(AgentBox))
	if err != nil {
		return err
	}
	if err := tr.put(ctx, AgentBox, "/", l.files); err != nil {
		return err
	}
	stdout, stderr, err := tr.openOutputs()
	if err != nil {
		return err
	}
	agent, err := tr.sandbox.Start(ctx, AgentBox, l.process)
	if err != nil {
		return errors.Join(advised(tr.sandbox, AgentBox, fmt.Errorf("agent: %w", err)), stdout.file.Close(), stderr.file.Close())
	}
	tr.record.AgentStart = tr.rec.Now()
	tr.agent = attend(agent, l.stdin, stdout, stderr)
	limit, cancel := context.WithTimeout(ctx, tr.plan.Timeout)
	defer cancel()
	took := tr.agent.await(limit)
	tr.record.AgentEnd = tr.rec.Now()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	tr.judge(took)
	return nil
}

// judge decides whose end it was. The agent's box breaking under it is the
// agent's doing: no agent may choose not to be graded.
func (tr *trialRun) judge(took span) {
	a := tr.agent
	if took == unstoppable {
		tr.blame(evidence.ClassTimeout, evidence.ReasonTimeLimit, fmt.Sprintf("the agent ran longer than %s and did not end when it was killed", tr.plan.Timeout))
		tr.gap(evidence.GapFinalOutput, errors.New("the agent did not end"))
		return // its output goes on
	}
	if a.err == nil {
		tr.record.ExitCode, tr.record.Signal = &a.exit.Code, a.exit.Signal
	}
	switch {
	case took == overrun:
		tr.blame(evidence.ClassTimeout, evidence.ReasonTimeLimit, fmt.Sprintf("the agent ran longer than %s", tr.plan.Timeout))
	case a.err != nil:
		tr.blame(evidence.ClassAgentError, evidence.ReasonGuest, "the agent broke its container's guest: "+a.err.Error())
	case a.exit.Signal != "":
		tr.blame(evidence.ClassAgentError, evidence.ReasonSignal, "the agent was ended by "+a.exit.Signal)
	case a.exit.Code != 0:
		tr.blame(evidence.ClassAgentError, evidence.ReasonExitCode, tr.exited(a).Error())
	}
	tr.keepOutput(a.stdout, a.stderr)
}

// exited is what to say of an agent that ended badly by itself. One that is
// somebody's program and said nothing may never have come up.
func (tr *trialRun) exited(a *attendance) error {
	err := fmt.Errorf("the agent exited with code %d", a.exit.Code)
	if len(tr.plan.Agent.Command) > 0 && a.stdout.size == 0 {
		return advised(tr.sandbox, AgentBox, err)
	}
	return err
}

// attendance is an agent under way: it is fed, and what it says is kept.
type attendance struct {
	agent          process.Process
	stdout, stderr *output
	ended          chan struct{} // closed when it has ended and its output is kept

	// Set before ended is closed.
	exit process.Exit
	err  error // of Wait: there is no exit
	kept error // what of its output could not be written
}

func attend(agent process.Process, stdin []byte, stdout, stderr *output) *attendance {
	a := &attendance{agent: agent, stdout: stdout, stderr: stderr, ended: make(chan struct{})}
	go a.see(stdin)
	return a
}

// see lasts as long as the agent, or its sandbox.
func (a *attendance) see(stdin []byte) {
	defer close(a.ended)
	var streams sync.WaitGroup
	streams.Go(func() { _, _ = io.Copy(a.stdout, a.agent.Stdout()) })
	streams.Go(func() { _, _ = io.Copy(a.stderr, a.agent.Stderr()) })
	streams.Go(func() {
		_, _ = a.agent.Stdin().Write(stdin) // an agent need not read it
		_ = a.agent.Stdin().Close()
	})
	a.exit, a.err = a.agent.Wait()
	_ = a.agent.Stdin().Close() // a write to it may still wait
	streams.Wait()
	a.kept = errors.Join(a.stdout.close(), a.stderr.close())
}

// span is how long an agent took.
type span int

const (
	inTime      span = iota
	overrun          // it ended when it was told to
	unstoppable      // nor then
)

// await returns when the agent has ended. At the limit it is asked to, then made
// to; where that does nothing either its box is beyond us, and await returns all
// the same.
func (a *attendance) await(limit context.Context) span {
	select {
	case <-a.ended:
		return inTime
	case <-limit.Done():
	}
	_ = a.agent.Signal(process.Terminate)
	if a.endsWithin(stopGrace) {
		return overrun
	}
	_ = a.agent.Signal(process.Kill)
	if a.endsWithin(killGrace) {
		return overrun
	}
	return unstoppable
}

func (a *attendance) endsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-a.ended:
		return true
	case <-timer.C:
		return false
	}
}
