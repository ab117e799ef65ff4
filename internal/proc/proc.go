// Package proc runs programs of this machine in process groups of their own, and identifies
// processes by boot, start time and number. It confines nothing.
package proc

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// Own has a command of a context run in a process group of its own, all of which is killed when
// the context ends. Output that something outside the group still holds open is waited for no
// longer than grace.
func Own(cmd *exec.Cmd, grace time.Duration) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = grace
}

// outputGrace is how long children of a program may keep its output open after it has ended or
// was killed.
const outputGrace = 2 * time.Second

// Command is a program to run.
type Command struct {
	Args           []string // the program and its arguments
	Dir            string
	Env            []string // "KEY=value"; nil for this process's own
	Stdout, Stderr io.Writer
}

// Run runs a command to its end. When ctx ends first, the program and all that is still in its
// process group are killed, and the error is that of ctx. A program that fails gives an
// [exec.ExitError].
func Run(ctx context.Context, c Command) error {
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.Dir, c.Env, c.Stdout, c.Stderr
	Own(cmd, outputGrace)
	err := cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// ExitCode returns the exit code of a program by the error of [Run], -1 if a signal ended it.
// It returns an error if the program could not be run to its end. A child that keeps the output
// open is no error.
func ExitCode(err error) (int, error) {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		return 0, nil
	}
	return 0, err
}
