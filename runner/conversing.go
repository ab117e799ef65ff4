package runner

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/waza-isolate/waza/agents"
	"github.com/waza-isolate/waza/runner/process"
)

// canContinue holds that an agent that is a program can be asked again, where it is to be. The
// message names the key that says how.
func (a Agent) canContinue(key string) error {
	if len(a.FollowUps) > 0 && len(a.Continue) == 0 {
		return fmt.Errorf("inputs.follow_up_prompts need an agent that goes on with a conversation: say how in %s", key)
	}
	return nil
}

// startAgent starts the agent, and again for each follow-up prompt.
func (tr *trialRun) startAgent(ctx context.Context, first launch) (process.Process, error) {
	a := tr.plan.Agent
	if len(a.FollowUps) == 0 || slices.Contains([]string{agents.Mock, agents.LLM}, a.Executor) {
		return tr.sandbox.Start(ctx, AgentBox, first.process)
	}
	c := &conversation{done: make(chan struct{})}
	c.next = func(turn int) (process.Process, []byte, error) {
		if turn == 0 {
			p, err := tr.sandbox.Start(ctx, AgentBox, first.process)
			return p, first.stdin, err
		}
		again := *tr.plan
		again.Agent.Prompt, again.Agent.Command = a.FollowUps[turn-1], a.Continue
		l, err := launchOf(&again, tr.sandbox.Layout(AgentBox), tr.found)
		if err != nil {
			return nil, nil, err
		}
		l.files = slices.DeleteFunc(l.files, func(f File) bool { return f.Path != promptPath }) // the others are there
		if err := tr.put(ctx, AgentBox, "/", l.files); err != nil {
			return nil, nil, err
		}
		p, err := tr.sandbox.Start(ctx, AgentBox, l.process)
		return p, l.stdin, err
	}
	return c, c.begin(1 + len(a.FollowUps))
}

// conversation is an agent that is run several times, as one process: a run for each prompt,
// until one does not exit with 0.
type conversation struct {
	next           func(turn int) (process.Process, []byte, error)
	stdout, stderr *io.PipeReader
	done           chan struct{}
	exit           process.Exit // set before done is closed
	err            error        // likewise

	mu      sync.Mutex
	current process.Process // guarded by mu
	stopped bool            // guarded by mu: no further run is started
}

// begin starts the first run; the others follow.
func (c *conversation) begin(turns int) error {
	p, stdin, err := c.next(0)
	if err != nil {
		return err
	}
	var out, errs *io.PipeWriter
	c.stdout, out = io.Pipe()
	c.stderr, errs = io.Pipe()
	c.current = p
	go func() {
		defer close(c.done)
		defer func() { _, _ = out.Close(), errs.Close() }()
		for turn := 1; ; turn++ {
			c.exit, c.err = feed(p, stdin, out, errs)
			if c.err != nil || c.exit != (process.Exit{}) || turn == turns || c.isStopped() {
				return
			}
			if p, stdin, c.err = c.next(turn); c.err != nil {
				return
			}
			c.follow(p)
		}
	}()
	return nil
}

func (c *conversation) isStopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopped
}

// follow has signals go to another run, which is ended where it comes too late.
func (c *conversation) follow(p process.Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = p
	if c.stopped {
		_ = p.Signal(process.Kill)
	}
}

// Stdin takes nothing: each run has its own.
func (c *conversation) Stdin() io.WriteCloser { return nothing{} }
func (c *conversation) Stdout() io.Reader     { return c.stdout }
func (c *conversation) Stderr() io.Reader     { return c.stderr }

func (c *conversation) Signal(s process.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	return c.current.Signal(s)
}

func (c *conversation) Wait() (process.Exit, error) {
	<-c.done
	return c.exit, c.err
}
