package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/sandbox/process"
)

// Launcher starts a server's program and returns once it runs. The context lasts
// as long as the process is wanted: where it ends first, Launch returns soon and
// may end the process.
type Launcher func(ctx context.Context) (process.Process, error)

// ErrKept is how a process ends for the proxy that goes on for somebody else.
var ErrKept = errors.New("is kept for what graders ask")

var ErrEnded = errors.New("the server's process has ended")

// Handler is who hears of what a server sends over [Lines], and of its end.
type Handler struct {
	Memory *bounded.Budget // for the messages that are held, either way
	Stderr *bounded.Ends
	Line   func([]byte) error // is called with every line of stdout; the process is ended where it fails
	Ended  func(Ending)       // is called once, after the last line
}

// Lines is a running server process, or a session that looks like one: whole lines in, whole
// lines out.
type Lines struct {
	proc process.Process
	in   chan outgoing
	held *bounded.Budget // for what is written
	quit chan struct{}   // closed by halt
	gone chan struct{}   // closed when it has ended and Handler.Ended has returned

	once  sync.Once
	asked bool  // it is no longer wanted; set before quit closes
	cause error // the rule it broke; set before quit closes
}

type outgoing struct {
	line    []byte // with its newline
	written chan<- error
}

// Ending is how a process or a session ended.
type Ending struct {
	Exit  process.Exit
	Err   error // why there is no Exit; else nil
	Cause error // the rule it broke, for which it was ended; else nil
	Asked bool  // it was no longer wanted
}

// String says how it ended, as in "exited with code 1".
func (e Ending) String() string {
	how := fmt.Sprintf("exited with code %d", e.Exit.Code)
	if e.Exit.Signal != "" {
		how = "was ended by " + e.Exit.Signal
	}
	switch {
	case errors.Is(e.Err, errHungUp):
		how = "was left: " + errHungUp.Error()
	case errors.Is(e.Err, ErrKept):
		how = ErrKept.Error()
	case e.Err != nil:
		how = "is lost: " + e.Err.Error()
	}
	switch {
	case errors.Is(e.Cause, ErrFlooded):
		how += ": " + e.Cause.Error()
	case e.Cause != nil:
		how += " after a message " + e.Cause.Error()
	}
	return how
}

// Known returns the exit; nil if there is none.
func (e Ending) Known() *process.Exit {
	if e.Err != nil {
		return nil
	}
	return &e.Exit
}

// Data returns what an event of the end holds.
func (e Ending) Data() map[string]any {
	return map[string]any{"code": e.Exit.Code, "signal": e.Exit.Signal, "asked": e.Asked}
}

// Open launches a process of s within s.Start. What it sends, and its end, goes to h from
// goroutines that end with the process. The caller ends it with [Lines.Stop], and by ending
// ctx.
func Open(ctx context.Context, s Server, launch Launcher, h Handler) (*Lines, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(s.Start, func() {
		cancel(fmt.Errorf("it did not start within %v", s.Start))
	})
	proc, err := launch(ctx)
	if !timer.Stop() && err == nil {
		err = context.Cause(ctx)
		_ = proc.Signal(process.Kill)
		go drain(proc, cancel)
	} else if err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		cancel(err)
		return nil, err
	}
	k := &Lines{
		proc: proc,
		in:   make(chan outgoing),
		held: h.Memory,
		quit: make(chan struct{}),
		gone: make(chan struct{}),
	}
	go k.supervise(s, h, cancel)
	return k, nil
}

// drain sees a process off that nobody wants any more.
func drain(proc process.Process, cancel context.CancelCauseFunc) {
	_, err := process.Attend(proc, nil, io.Discard, io.Discard)
	cancel(err)
}

// Send writes line and a newline to the process, and returns when it is written,
// the process has ended, or the context has. The writer may have its copy for longer.
func (k *Lines) Send(ctx context.Context, line []byte) error {
	size := int64(len(line) + 1)
	if !k.held.Take(size) {
		return ErrNoMemory
	}
	written := make(chan error, 1)
	select {
	case k.in <- outgoing{line: oneLine(line), written: written}:
	case <-k.quit:
		k.held.Give(size)
		return ErrEnded
	case <-ctx.Done():
		k.held.Give(size)
		return context.Cause(ctx)
	}
	select {
	case err := <-written:
		return err
	case <-k.gone:
		return ErrEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// oneLine is body as a line. Newlines in JSON are insignificant outside strings
// and impossible inside, so each becomes a space; no other byte changes.
func oneLine(body []byte) []byte {
	line := make([]byte, len(body)+1)
	copy(line, body)
	for i, c := range line {
		if c == '\n' || c == '\r' {
			line[i] = ' '
		}
	}
	line[len(body)] = '\n'
	return line
}

// Stop asks the process to end: its stdin is closed, then it is signalled. It
// does not wait.
func (k *Lines) Stop() { k.halt(true, nil) }

// Kill sends SIGKILL to the process.
func (k *Lines) Kill() { _ = k.proc.Signal(process.Kill) }

// Gone is closed when the process has ended and Handler.Ended has returned.
func (k *Lines) Gone() <-chan struct{} { return k.gone }

// halt takes no more lines for the process and sees it off. The first one counts.
func (k *Lines) halt(asked bool, cause error) {
	k.once.Do(func() {
		k.asked, k.cause = asked, cause
		close(k.quit)
	})
}

// supervise runs the process's three streams, and its end.
func (k *Lines) supervise(s Server, h Handler, cancel context.CancelCauseFunc) {
	defer close(k.gone)
	silent := make(chan struct{})   // closed at the end of stdout
	finished := make(chan struct{}) // closed at the end of the process and its output
	var waited Ending
	var streams, writer sync.WaitGroup
	streams.Go(func() {
		defer close(silent)
		k.read(s.Message, h)
	})
	streams.Go(func() { _, _ = io.Copy(h.Stderr, k.proc.Stderr()) })
	writer.Go(k.write)
	go func() {
		defer close(finished)
		waited.Exit, waited.Err = k.proc.Wait()
		streams.Wait()
	}()

	e := Ending{Err: errors.New("it did not end after SIGKILL")}
	if k.end(s.Grace, silent, finished) {
		e = waited
		_ = k.proc.Stdin().Close() // a write to it may still wait
		writer.Wait()
	}
	e.Asked, e.Cause = k.asked, k.cause
	h.Ended(e)
	cancel(ErrEnded)
}

func (k *Lines) read(max int64, h Handler) {
	err := readLines(k.proc.Stdout(), max, h.Memory, h.Line)
	if errors.Is(err, ErrTooLong) || errors.Is(err, ErrNoMemory) || errors.Is(err, ErrFlooded) {
		if defence.ShortLines {
			k.halt(false, err)
			_ = k.proc.Signal(process.Kill)
		}
		_, _ = io.Copy(io.Discard, k.proc.Stdout())
	}
}

// write writes what is sent until the process is no longer wanted or does not
// take it, and then closes its stdin.
func (k *Lines) write() {
	stdin := k.proc.Stdin()
	defer func() { _ = stdin.Close() }()
	for {
		select {
		case out := <-k.in:
			_, err := stdin.Write(out.line)
			k.held.Give(int64(len(out.line)))
			out.written <- err
			if err != nil {
				k.refuse(err)
				return
			}
		case <-k.quit:
			return
		}
	}
}

// refuse answers senders until the process is no longer wanted: it may have
// closed its stdin and yet live.
func (k *Lines) refuse(err error) {
	for {
		select {
		case out := <-k.in:
			k.held.Give(int64(len(out.line)))
			out.written <- err
		case <-k.quit:
			return
		}
	}
}

// end waits until the process is finished or unwanted, and sees it off: grace
// after its stdin was closed, grace after SIGTERM, and five times grace after
// SIGKILL. It says whether the process is finished.
func (k *Lines) end(grace time.Duration, silent, finished <-chan struct{}) bool {
	select {
	case <-finished:
		k.halt(false, nil)
		return true
	case <-silent: // a server without stdout is of no use
		k.halt(false, nil)
	case <-k.quit:
	}
	steps := []struct {
		wait time.Duration
		then process.Signal
	}{{grace, process.Terminate}, {grace, process.Kill}}
	for _, step := range steps {
		if within(finished, step.wait) {
			return true
		}
		_ = k.proc.Signal(step.then)
	}
	return within(finished, 5*grace)
}

func within(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
