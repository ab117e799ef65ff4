package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

var errInterrupted = errors.New("interrupted")

// endings are the signals that end a command. SIGHUP is not one of them where it was
// ignored when the process began, as under nohup: then it stays ignored.
func endings() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// interruptible returns a context that the first of [endings] ends. The
// second says that taking down goes on; the third gives up, and leaves to the
// engine and to gc what was not taken down yet.
func interruptible(ctx context.Context, stderr io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, endings()...)
	done := make(chan struct{})
	go func() {
		for count := 1; ; count++ {
			select {
			case <-done:
				return
			case <-signals:
			}
			switch count {
			case 1:
				fmt.Fprintln(stderr, "interrupted: stopping agents and taking everything down")
				cancel(errInterrupted)
			case 2:
				fmt.Fprintln(stderr, "still taking down; once more leaves the rest to waza gc")
			default:
				os.Exit(exitInfra)
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}
