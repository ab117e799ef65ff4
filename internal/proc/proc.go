// Package proc runs programs in their own process groups, and identifies processes by boot,
// start time and PID. It isolates nothing.
package proc

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"time"
)

// Own runs a command in its own process group, which is killed when the command's context ends. On
// systems without process groups, only the command is killed. It waits at most grace for output
// that a process outside the group still holds open.
func Own(cmd *exec.Cmd, grace time.Duration) {
	own(cmd)
	cmd.WaitDelay = grace
}

// outputGrace is how long children of a program may keep its output open after it has
// ended.
const outputGrace = 2 * time.Second

// Command is a program to run.
type Command struct {
	Args           []string // the program and its arguments
	Dir            string
	Env            []string // "KEY=value"; nil for this process's environment
	Stdout, Stderr io.Writer
}

// Run runs a command and waits for it. If ctx ends first it kills the program's process
// group and returns the error of ctx. If the program fails it returns an [exec.ExitError].
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

// ExitCode returns the exit code of a program given the error of [Run], or -1 if it was
// killed by a signal. It returns an error if the program could not be run. A child that
// keeps the output open is not an error.
func ExitCode(err error) (int, error) {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		return 0, nil
	}
	return 0, err
}
