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

// Handler handles the output and the end of [Lines].
type Handler struct {
	Memory *bounded.Budget // for messages held in memory, in both directions
	Stderr *bounded.Ends
	Line   func([]byte) error // called with each line of stdout; an error ends the process
	Ended  func(Ending)       // called once, after the last line; may be nil
}

// Lines is a running server process, or a session that behaves like one, that exchanges
// lines.
type Lines struct {
	Program
	proc process.Process
	in   chan outgoing
	held *bounded.Budget // memory for outgoing lines
	quit chan struct{}   // closed by halt

	once   sync.Once
	asked  bool  // Stop or Kill was called; set before quit is closed
	killed bool  // its stdin stays open until SIGKILL; set before quit is closed
	cause  error // limit that the process exceeded; set before quit is closed
}

type outgoing struct {
	line    []byte // including the newline
	written chan<- error
}

// Open launches a process of s, which must start within s.Start. It calls h with the output
// and the end of the process, from goroutines that end with it. The caller ends the process
// with [Lines.Stop] or by cancelling ctx.
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
		Program: Program{output: h.Stderr, noise: &bounded.Ends{Head: 512, Tail: 512}, gone: make(chan struct{})},
		proc:    proc,
		in:      make(chan outgoing),
		held:    h.Memory,
		quit:    make(chan struct{}),
	}
	go k.supervise(s, h, cancel)
	return k, nil
}

// drain discards the output of an abandoned process until it ends.
func drain(proc process.Process, cancel context.CancelCauseFunc) {
	_, err := process.Communicate(proc, nil, io.Discard, io.Discard).Wait()
	cancel(err)
}

// Send writes line and a newline to the process. It returns when that is written, or when
// the process or ctx has ended. The writer may hold its copy longer.
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

// oneLine returns a copy of a JSON text as one line.
func oneLine(body []byte) []byte {
	line := append(make([]byte, 0, len(body)+1), body...)
	unbreak(line)
	return append(line, '\n')
}

// unbreak replaces each line break in a JSON text with a space. Line breaks are
// insignificant outside of strings and cannot occur within them.
func unbreak(body []byte) {
	for i, c := range body {
		if c == '\n' || c == '\r' {
			body[i] = ' '
		}
	}
}

// Stop asks the process to end, by closing its stdin and then with signals. It does not
// wait.
func (k *Lines) Stop() { k.halt(true, false, nil) }

// Kill ends the process with SIGKILL. Its stdin is not closed before, so that it cannot exit by
// itself.
func (k *Lines) Kill() {
	k.halt(true, true, nil)
	_ = k.proc.Signal(process.Kill) // Stop may have been called before
}

// halt stops sending lines to the process and ends it. Only the first call has an effect.
func (k *Lines) halt(asked, killed bool, cause error) {
	k.once.Do(func() {
		k.asked, k.killed, k.cause = asked, killed, cause
		close(k.quit)
	})
}

// supervise runs the goroutines for the process's streams and waits for its end.
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

	k.end.Err = errors.New("it did not end after SIGKILL")
	if k.await(s.Grace, silent, finished) {
		k.end = waited
		_ = k.proc.Stdin().Close() // a write to it may still be blocked
		writer.Wait()
	}
	k.end.Asked, k.end.Cause = k.asked, k.cause
	if h.Ended != nil {
		h.Ended(k.end)
	}
	cancel(ErrEnded)
}

func (k *Lines) read(max int64, h Handler) {
	err := readLines(k.proc.Stdout(), max, h.Memory, h.Line)
	if errors.Is(err, ErrTooLong) || errors.Is(err, ErrNoMemory) || errors.Is(err, ErrFlooded) {
		if defence.ShortLines {
			k.halt(false, true, err)
		}
		_, _ = io.Copy(io.Discard, k.proc.Stdout())
	}
}

// write writes lines until the process is stopped, and then closes its stdin unless it is killed. Once a line
// cannot be written it fails all others: the process may have closed its stdin and run on.
func (k *Lines) write() {
	stdin := k.proc.Stdin()
	var err error
	for {
		select {
		case out := <-k.in:
			if err == nil {
				_, err = stdin.Write(out.line)
			}
			k.held.Give(int64(len(out.line)))
			out.written <- err
		case <-k.quit:
			if !k.killed {
				_ = stdin.Close()
			}
			return
		}
	}
}

// await waits until the process has finished or is stopped, and then ends it. It waits for
// grace after closing stdin, for grace after SIGTERM, and for five times grace after
// SIGKILL; a killed process gets only SIGKILL. It reports whether the process has finished.
func (k *Lines) await(grace time.Duration, silent, finished <-chan struct{}) bool {
	select {
	case <-finished:
		k.halt(false, false, nil)
		return true
	case <-silent: // a server without stdout cannot respond
		k.halt(false, false, nil)
	case <-k.quit:
	}
	steps := []process.Step{{Grace: grace}, {Signal: process.Terminate, Grace: grace}, {Signal: process.Kill, Grace: 5 * grace}}
	if k.killed {
		steps = steps[2:]
	}
	return process.Stop(context.Background(), k.proc, finished, steps...)
}
