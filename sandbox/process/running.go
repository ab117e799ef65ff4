package process

import (
	"context"
	"io"
	"sync"
	"time"
)

// Running is a [Process] whose stdin is written and whose outputs are copied.
type Running struct {
	Process
	ended chan struct{}

	// Valid after ended is closed.
	exit Exit
	err  error
}

// Communicate writes stdin to a program and copies its outputs until both have ended and the program
// has exited. The program need not read stdin. If stdout and stderr are the same writer, it is
// used concurrently. If a writer fails, the rest of its output is not read.
func Communicate(p Process, stdin []byte, stdout, stderr io.Writer) *Running {
	r := &Running{Process: p, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.exit, r.err = communicate(p, stdin, stdout, stderr)
	}()
	return r
}

func communicate(p Process, stdin []byte, stdout, stderr io.Writer) (Exit, error) {
	var streams sync.WaitGroup
	streams.Go(func() { _, _ = io.Copy(stdout, p.Stdout()) })
	streams.Go(func() { _, _ = io.Copy(stderr, p.Stderr()) })
	streams.Go(func() {
		if len(stdin) > 0 {
			_, _ = p.Stdin().Write(stdin)
		}
		_ = p.Stdin().Close()
	})
	exit, err := p.Wait()
	_ = p.Stdin().Close() // unblocks a pending write
	streams.Wait()
	return exit, err
}

// Ended is closed when the program has ended and its outputs have been copied.
func (r *Running) Ended() <-chan struct{} { return r.ended }

// HasEnded reports whether the program has ended and its outputs have been copied.
func (r *Running) HasEnded() bool { return IsClosed(r.ended) }

// Wait implements [Process]. It returns when the outputs have been copied too.
func (r *Running) Wait() (Exit, error) {
	<-r.ended
	return r.exit, r.err
}

// Stop ends the program as the function [Stop] does.
func (r *Running) Stop(ctx context.Context, steps ...Step) bool {
	return Stop(ctx, r.Process, r.ended, steps...)
}

// WaitOrKill waits for the program's end. When ctx ends first, it kills the program and waits
// no longer than grace. It reports whether the program ended by itself.
func (r *Running) WaitOrKill(ctx context.Context, grace time.Duration) bool {
	select {
	case <-r.ended:
		return true
	case <-ctx.Done():
		r.Stop(context.WithoutCancel(ctx), Step{Kill, grace})
		return false
	}
}

// Step is a signal to a program, and how long to wait for its exit.
type Step struct {
	Signal Signal // may be empty
	Grace  time.Duration
}

// Stop executes the steps until ended is closed, which means that the program has exited. It
// reports whether that happened. When ctx is done, it does not wait any longer.
func Stop(ctx context.Context, p Process, ended <-chan struct{}, steps ...Step) bool {
	for _, step := range steps {
		if IsClosed(ended) {
			return true
		}
		if step.Signal != "" {
			_ = p.Signal(step.Signal)
		}
		grace := time.NewTimer(step.Grace)
		select {
		case <-ended:
		case <-grace.C:
		case <-ctx.Done():
		}
		grace.Stop()
	}
	return IsClosed(ended)
}

// IsClosed reports whether a channel on which nothing is sent is closed.
func IsClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// Within reports whether a channel is closed within d.
func Within(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return IsClosed(done)
	}
}
