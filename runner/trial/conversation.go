package trial

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

// startAgent starts the agent. If the trial has several turns, further prompts come from talk:
// a built-in agent reads them from stdin, other agents are run again for each prompt.
func (w *agentWork) startAgent(ctx context.Context, talk *turnHandler) (process.Process, error) {
	a := w.stage.plan.Agent
	first, err := w.stage.sandbox.Start(ctx, sandbox.Agent, w.launch.Process)
	if err != nil || !w.stage.plan.TakesTurns() {
		return first, err
	}
	ctx, stop := context.WithCancel(ctx)
	next := func(said []byte) (string, bool) { return talk.turnEnded(ctx, said) }
	if agents.IsOurs(a.Executor) {
		return &promptedProcess{Process: first, next: next, stop: stop, said: &bounded.Head{Limit: a.OutputLimit()}}, nil
	}
	again := func(prompt string) (process.Process, []byte, error) {
		again := *w.stage.plan
		again.Agent.Prompt, again.Agent.Command = prompt, a.Continue
		l, err := again.Launch(w.stage.sandbox.Layout(sandbox.Agent), w.stage.endpoints.addresses, nil)
		if err != nil {
			return nil, nil, err
		}
		l.Files = slices.DeleteFunc(l.Files, func(f plan.File) bool { return f.Path != plan.PromptPath }) // the other files are in place
		if err := put(ctx, w.stage.sandbox, sandbox.Agent, l.Files); err != nil {
			return nil, nil, err
		}
		p, err := w.stage.sandbox.Start(ctx, sandbox.Agent, l.Process)
		return p, l.Stdin, err
	}
	c := &conversation{next: next, again: again, stop: stop, done: make(chan struct{}), current: first}
	var out, errs *io.PipeWriter
	c.stdout, out = io.Pipe()
	c.stderr, errs = io.Pipe()
	go func() {
		defer close(c.done)
		defer stop()
		c.exit, c.err = c.runs(w.launch.Stdin, &bounded.Head{Limit: a.OutputLimit()}, out, errs)
		_, _ = out.Close(), errs.Close()
	}()
	return c, nil
}

// promptedProcess is a built-in agent in a trial with several turns. At the end of each turn it
// gets the next prompt, or its stdin is closed.
type promptedProcess struct {
	process.Process
	next func(said []byte) (prompt string, ok bool)
	stop context.CancelFunc

	// Used only by Read.
	said *bounded.Head // output so far
	rest []byte        // output after the end of a turn
}

// Stdin returns a writer for the first input. Closing it keeps stdin open for further prompts.
func (d *promptedProcess) Stdin() io.WriteCloser { return stayingOpen{d.Process.Stdin()} }

func (d *promptedProcess) Stdout() io.Reader { return d }

func (d *promptedProcess) Read(p []byte) (int, error) {
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

// answer sends the agent its next prompt without waiting for the agent to read it.
func (d *promptedProcess) answer() {
	stdin := d.Process.Stdin()
	var prompt string
	ok := d.said.Over() == 0 // otherwise the agent is being stopped
	if ok {
		prompt, ok = d.next(d.said.Bytes())
	}
	line, err := json.Marshal(prompt)
	if !ok || err != nil {
		_ = stdin.Close()
		return
	}
	go func() { _, _ = stdin.Write(append(line, '\n')) }()
}

func (d *promptedProcess) Signal(s process.Signal) error {
	d.stop()
	return d.Process.Signal(s)
}

func (d *promptedProcess) Wait() (process.Exit, error) {
	defer d.stop()
	defer func() { _ = d.Process.Stdin().Close() }()
	return d.Process.Wait()
}

type stayingOpen struct{ io.Writer }

func (stayingOpen) Close() error { return nil }

// conversation runs an agent once for each prompt, until a run fails, and presents the runs as
// one process.
type conversation struct {
	next  func(said []byte) (prompt string, ok bool)
	again func(prompt string) (process.Process, []byte, error)
	stop  context.CancelFunc

	stdout, stderr *io.PipeReader
	done           chan struct{}
	exit           process.Exit // valid after done is closed
	err            error        // valid after done is closed

	mu      sync.Mutex
	current process.Process // guarded by mu
	stopped bool            // guarded by mu; no further run is started
}

// runs waits for the first run and starts the following ones. It returns the exit status of the
// last.
func (c *conversation) runs(stdin []byte, said *bounded.Head, stdout, stderr io.Writer) (process.Exit, error) {
	for p := c.current; ; {
		exit, err := process.Communicate(p, stdin, io.MultiWriter(said, stdout), stderr).Wait()
		if err != nil || exit != (process.Exit{}) || c.isStopped() || said.Over() > 0 {
			return exit, err
		}
		prompt, ok := c.next(said.Bytes())
		if !ok {
			return exit, nil
		}
		if p, stdin, err = c.again(prompt); err != nil {
			return exit, err
		}
		c.follow(p)
	}
}

func (c *conversation) isStopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopped
}

// follow makes p the process that signals go to, and kills it if the conversation was stopped.
func (c *conversation) follow(p process.Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = p
	if c.stopped {
		_ = p.Signal(process.Kill)
	}
}

// Stdin discards its input: each run has its own.
func (c *conversation) Stdin() io.WriteCloser { return stayingOpen{io.Discard} }

func (c *conversation) Stdout() io.Reader { return c.stdout }

func (c *conversation) Stderr() io.Reader { return c.stderr }

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
