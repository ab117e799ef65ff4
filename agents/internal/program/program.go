// Package program runs programs for agents, to their end and with bounds on what they
// say. It starts no shell of its own accord, and it confines nothing: the agent's box does.
package program

import (
	"context"
	"errors"
	"os/exec"
	"time"

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
	Stdout, Stderr Output
	Code           int // -1 where a signal ended it
}

// Output is the beginning of what a program wrote.
type Output struct {
	Kept []byte
	Lost int64 // bytes beyond it
}

// Run runs c to its end. When ctx ends first, the program and all that is still in its
// process group are killed, and the error is ctx's, beside what the program had said. Any
// other error is that it could not be run.
func Run(ctx context.Context, c Command) (Result, error) {
	out, errOut := keeper{room: c.Keep}, keeper{room: c.Keep}
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Dir = c.Dir
	cmd.Env = c.Env
	cmd.Stdout, cmd.Stderr = &out, &errOut
	procgroup.Own(cmd, outputGrace)

	err := cmd.Run()
	result := Result{Stdout: out.Output, Stderr: errOut.Output, Code: -1}
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

// keeper takes everything and keeps what there is room for.
type keeper struct {
	Output
	room int
}

func (k *keeper) Write(data []byte) (int, error) {
	kept := min(k.room-len(k.Kept), len(data))
	k.Kept = append(k.Kept, data[:kept]...)
	k.Lost += int64(len(data) - kept)
	return len(data), nil
}
