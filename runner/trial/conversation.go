package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waza-isolate/waza/agents"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// startAgent starts the agent, which has the prompts behind the first from talk: one of ours
// as it waits for them, and another in a further run for each.
func (w *agentWork) startAgent(ctx context.Context, first plan.Launch, talk *talk) (process.Process, error) {
	a := w.plan.Agent
	if !w.plan.TakesTurns() {
		return w.sandbox.Start(ctx, sandbox.Agent, first.Process)
	}
	ctx, stop := context.WithCancel(ctx)
	next := func(said []byte) (string, bool) { return talk.over(ctx, said) }
	if agents.IsOurs(a.Executor) {
		p, err := w.sandbox.Start(ctx, sandbox.Agent, first.Process)
		return &promptedProcess{Process: p, next: next, stop: stop, said: &bounded.Head{Limit: a.OutputLimit()}}, err
	}
	c := &conversation{done: make(chan struct{}), next: next, stop: stop, limit: a.OutputLimit()}
	c.again = func(prompt string) (process.Process, []byte, error) {
		again := *w.plan
		again.Agent.Prompt, again.Agent.Command = prompt, a.Continue
		l, err := again.Launch(sandbox.LayoutOf(w.sandbox, sandbox.Agent), w.found)
		if err != nil {
			return nil, nil, err
		}
		l.Files = slices.DeleteFunc(l.Files, func(f plan.File) bool { return f.Path != plan.PromptPath }) // the others are there
		if err := w.put(ctx, sandbox.Agent, "/", l.Files); err != nil {
			return nil, nil, err
		}
		p, err := w.sandbox.Start(ctx, sandbox.Agent, l.Process)
		return p, l.Stdin, err
	}
	p, err := w.sandbox.Start(ctx, sandbox.Agent, first.Process)
	if err == nil {
		c.begin(p, first.Stdin)
	}
	return c, err
}

// promptedProcess is an agent of ours in a conversation. Where it says that a turn is over it gets
// the next prompt, or the end of its stdin.
type promptedProcess struct {
	process.Process
	next func(said []byte) (prompt string, ok bool)
	stop context.CancelFunc

	said *bounded.Head // so far; of the one who reads Stdout
	rest []byte        // that came with the end of a turn, likewise
}

// Stdin takes what the agent is started with, and stays open for further prompts.
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

// answer gives the agent its next prompt. One that does not read it is not waited for: what
// it is given fits into a pipe or is read by a program of ours.
func (d *promptedProcess) answer() {
	stdin := d.Process.Stdin()
	prompt, ok := d.next(d.said.Bytes())
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

// talk is what the runner has to do with a conversation: between two turns it grades what
// there is, where the task has a checkpoint there, and finds the next prompt. The agent's
// time stands still meanwhile.
type talk struct {
	work    *agentWork
	clock   *agentClock
	started time.Time

	mu          sync.Mutex            // held while a turn is over
	turns       int                   // that are over; guarded by mu
	checkpoints []evidence.Checkpoint // guarded by mu
	err         error                 // what failed on our side; guarded by mu

	responder *evidence.Responder // nil until it is asked; guarded by mu
	exchanges []grading.Exchange  // that it is shown; guarded by mu
	heard     string              // what the agent said before the last turn; guarded by mu
	blame     string              // why nobody answered the agent; empty where that was not so; guarded by mu
}

// over is told that a turn is over, with what the agent said on stdout so far. It returns the
// next prompt; ok is false where there is none.
func (t *talk) over(ctx context.Context, said []byte) (prompt string, ok bool) {
	t.clock.pause()
	defer t.clock.resume()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turns++
	stop, err := t.checkpoint(ctx, t.turns, said)
	if stop && t.responder != nil {
		t.responder.Outcome = evidence.ResponderStopped
	}
	if err == nil && !stop {
		prompt, ok, err = t.next(ctx, said)
	}
	if ctx.Err() != nil {
		return "", false
	}
	t.err = err
	return prompt, ok && err == nil
}

func (t *talk) next(ctx context.Context, said []byte) (prompt string, ok bool, err error) {
	if r := t.work.plan.Agent.Responder; r != nil {
		return t.respond(ctx, *r, said)
	}
	if prompts := t.work.plan.Agent.FollowUps; t.turns <= len(prompts) {
		return prompts[t.turns-1], true, nil
	}
	return "", false, nil
}

// end puts what came of the conversation on the trial's record, once the agent has ended.
func (t *talk) end() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	to := &t.work.record
	to.Checkpoints, to.Responder, to.BetweenTurns = t.checkpoints, t.responder, t.clock.paused()
	if t.blame != "" {
		t.work.blame(evidence.ClassError, evidence.ReasonResponder, t.blame)
	}
	return t.err
}

// agentClock ends a context when the agent has had its time. While it is paused no time goes
// by.
type agentClock struct {
	end context.CancelCauseFunc

	mu      sync.Mutex
	timer   *time.Timer   // guarded by mu
	left    time.Duration // when it was last started; guarded by mu
	started time.Time     // of what is under way, a turn or a pause; guarded by mu
	stood   time.Duration // in all pauses; guarded by mu
}

func startAgentClock(ctx context.Context, limit time.Duration) (context.Context, *agentClock) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &agentClock{end: cancel, left: limit, started: time.Now()}
	c.timer = time.AfterFunc(limit, func() { cancel(context.DeadlineExceeded) })
	return ctx, c
}

// errNoEvent is why an agent is ended that did nothing at all.
var errNoEvent = errors.New("no first event")

// begins ends the context where the agent does nothing within limit; 0 is no limit. What it
// did is told by acted.
func (c *agentClock) begins(limit time.Duration, acted *atomic.Bool) (stop func() bool) {
	if limit == 0 {
		return func() bool { return true }
	}
	return time.AfterFunc(limit, func() {
		if !acted.Load() {
			c.end(errNoEvent)
		}
	}).Stop
}

func (c *agentClock) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer.Stop()
	c.left -= time.Since(c.started)
	c.started = time.Now()
}

func (c *agentClock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stood += time.Since(c.started)
	c.started = time.Now()
	c.timer.Reset(max(0, c.left))
}

func (c *agentClock) paused() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stood
}

// stop frees what the clock holds.
func (c *agentClock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer.Stop()
	c.end(nil)
}

// respond has a model answer the agent as its user. ok is false where the conversation is over.
// The error is of a provider that cannot be asked.
func (t *talk) respond(ctx context.Context, r eval.Responder, said []byte) (reply string, ok bool, err error) {
	w := t.work
	if t.responder == nil {
		t.responder = &evidence.Responder{}
		t.exchanges = []grading.Exchange{{Prompt: w.plan.Agent.Prompt}}
	}
	info := t.responder
	whole := w.words(said)
	clean, _ := w.o.Secrets.Bytes([]byte(strings.TrimPrefix(whole, t.heard)))
	t.heard = whole
	t.exchanges[len(t.exchanges)-1].Said = string(clean)
	if info.FollowupsSent == r.MaxFollowups {
		info.Outcome = evidence.ResponderExhausted
		return "", false, nil
	}
	answer, err := t.askUser(ctx, r)
	switch {
	case err != nil:
		info.Outcome, info.Reason = evidence.ResponderError, err.Error()
		if known := (*fault)(nil); errors.As(err, &known) {
			return "", false, err
		}
		t.blame = "nobody answered the agent: " + info.Reason
	case answer.Action == grading.ActionStop:
		info.Outcome = evidence.ResponderStopped
	case answer.Action == grading.ActionAbstain:
		info.Outcome, info.Reason = evidence.ResponderAbstained, answer.Text
		t.blame = "inputs.responder.instructions do not tell what the agent asks: " + answer.Text
	default:
		info.FollowupsSent++
		t.exchanges = append(t.exchanges, grading.Exchange{Prompt: answer.Text})
		return answer.Text, true, nil
	}
	return "", false, nil
}

// askUser asks the model, and puts what came of it on record. An error that is a fault is the
// provider's: it fails without a word of the agent's, too.
func (t *talk) askUser(ctx context.Context, r eval.Responder) (grading.Reply, error) {
	w, judge := t.work, *t.work.plan.Judge
	client, err := w.o.Connect(judge)
	if err != nil {
		return grading.Reply{}, because(evidence.ReasonModel, err)
	}
	ask := grading.AskUser(judge, r.Model, r.Instructions, t.exchanges)
	answer, failed := client.Answer(ctx, ask)
	if failed != nil && ctx.Err() == nil {
		if _, err := client.Answer(ctx, grading.AskUser(judge, r.Model, r.Instructions, nil)); err != nil {
			return grading.Reply{}, because(evidence.ReasonModel, fmt.Errorf("inputs.responder: %w", err))
		}
	}
	step := evidence.Step{Kind: evidence.StepResponder}
	if step.Ask, err = (grading.Question{Ask: ask}).Raw(); err != nil {
		return grading.Reply{}, err
	}
	if failed != nil {
		step.Error = failed.Error()
	} else if step.Answer, err = json.Marshal(answer); err != nil {
		return grading.Reply{}, err
	}
	if err := errors.Join(failed, w.rec.Step(step)); err != nil {
		return grading.Reply{}, err
	}
	reply, err := grading.ReadReply(answer)
	reply.Text = w.o.Secrets.String(reply.Text)
	return reply, err
}

// words is what an agent says, of what it wrote on stdout.
func (w *agentWork) words(stdout []byte) string {
	if w.plan.Agent.Output != plan.OutputTranscript {
		return string(stdout)
	}
	var all []string
	_, _ = w.plan.Agent.Tells.Read(bytes.NewReader(stdout), func(e evidence.TranscriptEvent) error { // what cannot be read is told in the end
		if e.Type == evidence.AssistantMessage && e.Content != "" {
			all = append(all, e.Content)
		}
		return nil
	})
	return strings.Join(all, "\n")
}
