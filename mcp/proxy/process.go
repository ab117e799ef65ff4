package proxy

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

var errEnded = errors.New("the server's process has ended")

// childConfig is how a child is started and who hears of it.
type childConfig struct {
	launch  Launcher
	starts  time.Duration // until launch must have returned
	grace   time.Duration
	message int64
	memory  *bounded.Budget
	stderr  *bounded.Ends
	line    func([]byte) error // every line of stdout; it fails where the process is to end
	ended   func(ending)       // once, after the last line
}

// child is a running server process: whole lines in, whole lines out.
type child struct {
	proc process.Process
	in   chan outgoing
	held *bounded.Budget // for what is written
	quit chan struct{}   // closed by halt
	gone chan struct{}   // closed when it has ended and all was reported

	once  sync.Once
	asked bool  // it is no longer wanted; set before quit closes
	cause error // the rule it broke; set before quit closes
}

type outgoing struct {
	line    []byte // with its newline
	written chan<- error
}

// ending is how a child ended.
type ending struct {
	exit  process.Exit
	err   error // of Wait: there is no exit
	cause error // the rule it broke, for which we ended it
	asked bool  // it was no longer wanted
}

func (e ending) String() string {
	how := fmt.Sprintf("exited with code %d", e.exit.Code)
	if e.exit.Signal != "" {
		how = "was ended by " + e.exit.Signal
	}
	switch {
	case errors.Is(e.err, errHungUp):
		how = "was left: " + errHungUp.Error()
	case errors.Is(e.err, ErrKept):
		how = ErrKept.Error()
	case e.err != nil:
		how = "is lost: " + e.err.Error()
	}
	switch {
	case errors.Is(e.cause, errFlooded):
		how += ": " + e.cause.Error()
	case e.cause != nil:
		how += " after a message " + e.cause.Error()
	}
	return how
}

// startChild launches a process. What it learns goes to c.line and c.ended, from
// goroutines that end with the process.
func startChild(ctx context.Context, c childConfig) (*child, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(c.starts, func() {
		cancel(fmt.Errorf("it did not start within %v", c.starts))
	})
	proc, err := c.launch(ctx)
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
	k := &child{
		proc: proc,
		in:   make(chan outgoing),
		held: c.memory,
		quit: make(chan struct{}),
		gone: make(chan struct{}),
	}
	go k.supervise(c, cancel)
	return k, nil
}

// drain sees a process off that nobody wants any more.
func drain(proc process.Process, cancel context.CancelCauseFunc) {
	_, err := process.Attend(proc, nil, io.Discard, io.Discard)
	cancel(err)
}

// send writes line and a newline to the process, and returns when it is written,
// the process has ended, or the context has. The writer may have its copy for longer.
func (k *child) send(ctx context.Context, line []byte) error {
	size := int64(len(line) + 1)
	if !k.held.Take(size) {
		return errNoMemory
	}
	written := make(chan error, 1)
	select {
	case k.in <- outgoing{line: oneLine(line), written: written}:
	case <-k.quit:
		k.held.Give(size)
		return errEnded
	case <-ctx.Done():
		k.held.Give(size)
		return context.Cause(ctx)
	}
	select {
	case err := <-written:
		return err
	case <-k.gone:
		return errEnded
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

// stop asks the process to end: its stdin is closed, then it is signalled. It
// does not wait.
func (k *child) stop() { k.halt(true, nil) }

// halt takes no more lines for the process and sees it off. The first one counts.
func (k *child) halt(asked bool, cause error) {
	k.once.Do(func() {
		k.asked, k.cause = asked, cause
		close(k.quit)
	})
}

// supervise runs the process's three streams, and its end.
func (k *child) supervise(c childConfig, cancel context.CancelCauseFunc) {
	defer close(k.gone)
	silent := make(chan struct{})   // closed at the end of stdout
	finished := make(chan struct{}) // closed at the end of the process and its output
	var waited ending
	var streams, writer sync.WaitGroup
	streams.Go(func() {
		defer close(silent)
		k.read(c)
	})
	streams.Go(func() { _, _ = io.Copy(c.stderr, k.proc.Stderr()) })
	writer.Go(k.write)
	go func() {
		defer close(finished)
		waited.exit, waited.err = k.proc.Wait()
		streams.Wait()
	}()

	e := ending{err: errors.New("it did not end after SIGKILL")}
	if k.end(c.grace, silent, finished) {
		e = waited
		_ = k.proc.Stdin().Close() // a write to it may still wait
		writer.Wait()
	}
	e.asked, e.cause = k.asked, k.cause
	c.ended(e)
	cancel(errEnded)
}

func (k *child) read(c childConfig) {
	err := readLines(k.proc.Stdout(), c.message, c.memory, c.line)
	if errors.Is(err, errTooLong) || errors.Is(err, errNoMemory) || errors.Is(err, errFlooded) {
		if defence.ShortLines {
			k.halt(false, err)
			_ = k.proc.Signal(process.Kill)
		}
		_, _ = io.Copy(io.Discard, k.proc.Stdout())
	}
}

// write writes what is sent until the process is no longer wanted or does not
// take it, and then closes its stdin.
func (k *child) write() {
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
func (k *child) refuse(err error) {
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
func (k *child) end(grace time.Duration, silent, finished <-chan struct{}) bool {
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
