// Package program runs programs for agents to their end and bounds their output. It starts
// no shell of its own accord, and it confines nothing: the agent's container does.
package program

import (
	"context"
	"errors"
	"os/exec"
	"time"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/procgroup"
)

// outputGrace is how long a program's children may keep its output open after it
// ended or was killed.
const outputGrace = 2 * time.Second

// Command is what to run.
type Command struct {
	Args []string // the program, and its arguments
	Dir  string
	Env  []string // "KEY=value"; nil is the process's own
	Keep int      // bytes of each output that are kept
}

// Result is what a program left.
type Result struct {
	Stdout, Stderr *bounded.Head
	Code           int // -1 where a signal ended it
}

// Run runs c to its end. When ctx ends first, the program and all that is still in its
// process group are killed, and the error is ctx's, beside what the program had said. Any
// other error is that it could not be run.
func Run(ctx context.Context, c Command) (Result, error) {
	result := Result{Stdout: &bounded.Head{Limit: int64(c.Keep)}, Stderr: &bounded.Head{Limit: int64(c.Keep)}, Code: -1}
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Dir = c.Dir
	cmd.Env = c.Env
	cmd.Stdout, cmd.Stderr = result.Stdout, result.Stderr
	procgroup.Own(cmd, outputGrace)

	err := cmd.Run()
	if ctx.Err() != nil {
		return result, ctx.Err()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return Result{}, err
	}
	result.Code = cmd.ProcessState.ExitCode()
	return result, nil
}
