package runner

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"sync"

	"github.com/waza-isolate/waza/agents"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// startAgent starts the agent, which has the prompts behind the first from talk: one of ours
// as it waits for them, and another in a further run for each.
func (tr *trialRun) startAgent(ctx context.Context, first plan.Launch, talk *talk) (process.Process, error) {
	a := tr.plan.Agent
	if !tr.plan.TakesTurns() {
		return tr.sandbox.Start(ctx, sandbox.Agent, first.Process)
	}
	ctx, stop := context.WithCancel(ctx)
	next := func(said []byte) (string, bool) { return talk.over(ctx, said) }
	if agents.IsOurs(a.Executor) {
		p, err := tr.sandbox.Start(ctx, sandbox.Agent, first.Process)
		return &dialogue{Process: p, next: next, stop: stop, said: &bounded.Head{Limit: a.OutputLimit()}}, err
	}
	c := &conversation{done: make(chan struct{}), next: next, stop: stop, limit: a.OutputLimit()}
	c.again = func(prompt string) (process.Process, []byte, error) {
		again := *tr.plan
		again.Agent.Prompt, again.Agent.Command = prompt, a.Continue
		l, err := again.Launch(tr.sandbox.Layout(sandbox.Agent), tr.found)
		if err != nil {
			return nil, nil, err
		}
		l.Files = slices.DeleteFunc(l.Files, func(f plan.File) bool { return f.Path != plan.PromptPath }) // the others are there
		if err := tr.put(ctx, sandbox.Agent, "/", l.Files); err != nil {
			return nil, nil, err
		}
		p, err := tr.sandbox.Start(ctx, sandbox.Agent, l.Process)
		return p, l.Stdin, err
	}
	p, err := tr.sandbox.Start(ctx, sandbox.Agent, first.Process)
	if err == nil {
		c.begin(p, first.Stdin)
	}
	return c, err
}

// dialogue is an agent of ours in a conversation. Where it says that a turn is over it gets
// the next prompt, or the end of its stdin.
type dialogue struct {
	process.Process
	next func(said []byte) (prompt string, ok bool)
	stop context.CancelFunc

	said *bounded.Head // so far; of the one who reads Stdout
	rest []byte        // that came with the end of a turn, likewise
}

// Stdin takes what the agent is started with, and stays open for further prompts.
func (d *dialogue) Stdin() io.WriteCloser { return stayingOpen{d.Process.Stdin()} }

func (d *dialogue) Stdout() io.Reader { return d }

func (d *dialogue) Read(p []byte) (int, error) {
	for {
		n, err := len(d.rest), error(nil)
		if n > 0 {
			n = copy(p, d.rest)
			d.rest = d.rest[n:]
		} else if n, err = d.Process.Stdout().Read(p); n == 0 {
			return 0, err
		}
		i := slices.Index(p[:n], agents.TurnEnd)
		if i < 0 {
			_, _ = d.said.Write(p[:n])
			return n, err
		}
		d.rest = append(slices.Clone(p[i+1:n]), d.rest...)
		_, _ = d.said.Write(p[:i])
		d.answer()
		if i > 0 {
			return i, nil
		}
	}
}

// answer gives the agent its next prompt. One that does not read it is not waited for: what
// it is given fits into a pipe or is read by a program of ours.
func (d *dialogue) answer() {
	stdin := d.Process.Stdin()
	prompt, ok := d.next(d.said.Bytes())
	line, err := json.Marshal(prompt)
	if !ok || err != nil {
		_ = stdin.Close()
		return
	}
	go func() { _, _ = stdin.Write(append(line, '\n')) }()
}

func (d *dialogue) Signal(s process.Signal) error {
	d.stop()
	return d.Process.Signal(s)
}

func (d *dialogue) Wait() (process.Exit, error) {
	defer d.stop()
	defer func() { _ = d.Process.Stdin().Close() }()
	return d.Process.Wait()
}

type stayingOpen struct{ io.Writer }

func (stayingOpen) Close() error { return nil }

// conversation is an agent that is run several times, as one process: a run for each prompt,
// until one does not exit with 0.
type conversation struct {
	next  func(said []byte) (prompt string, ok bool)
	again func(prompt string) (process.Process, []byte, error)
	stop  context.CancelFunc
	limit int64 // bytes of what it said that next is told

	stdout, stderr *io.PipeReader
	done           chan struct{}
	exit           process.Exit // set before done is closed
	err            error        // likewise

	mu      sync.Mutex
	current process.Process // guarded by mu
	stopped bool            // guarded by mu: no further run is started
}

// begin follows the first run, and starts the others.
func (c *conversation) begin(p process.Process, stdin []byte) {
	var out, errs *io.PipeWriter
	c.stdout, out = io.Pipe()
	c.stderr, errs = io.Pipe()
	c.current = p
	go func() {
		defer close(c.done)
		defer c.stop()
		defer func() { _, _ = out.Close(), errs.Close() }()
		said := &bounded.Head{Limit: c.limit}
		for {
			c.exit, c.err = process.Attend(p, stdin, io.MultiWriter(said, out), errs)
			if c.err != nil || c.exit != (process.Exit{}) || c.isStopped() {
				return
			}
			prompt, ok := c.next(said.Bytes())
			if !ok {
				return
			}
			if p, stdin, c.err = c.again(prompt); c.err != nil {
				return
			}
			c.follow(p)
		}
	}()
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
func (c *conversation) Stdin() io.WriteCloser { return stayingOpen{io.Discard} }
func (c *conversation) Stdout() io.Reader     { return c.stdout }
func (c *conversation) Stderr() io.Reader     { return c.stderr }

func (c *conversation) Signal(s process.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.stop()
	return c.current.Signal(s)
}

func (c *conversation) Wait() (process.Exit, error) {
	<-c.done
	return c.exit, c.err
}
