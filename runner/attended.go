package runner

import (
	"context"
	"errors"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/sandbox/process"
)

// attended is a program under way: it is fed, and the beginning of what it says is
// kept.
type attended struct {
	program        process.Process
	stdout, stderr *bounded.Head
	ended          chan struct{}

	// Set before ended is closed.
	exit process.Exit
	err  error
}

func attendProgram(p process.Process, stdin []byte, kept int64) *attended {
	a := &attended{program: p, stdout: &bounded.Head{Limit: kept}, stderr: &bounded.Head{Limit: kept}, ended: make(chan struct{})}
	go a.see(stdin)
	return a
}

func (a *attended) see(stdin []byte) {
	defer close(a.ended)
	a.exit, a.err = process.Attend(a.program, stdin, a.stdout, a.stderr)
}

// within waits for the program's end, and ends it at the limit or with ctx. It says
// whether it ended by itself.
func (a *attended) within(ctx context.Context, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-a.ended:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	_ = a.program.Signal(process.Kill)
	ended := time.NewTimer(killGrace)
	defer ended.Stop()
	select {
	case <-a.ended:
	case <-ended.C:
	}
	return false
}

// await waits until a program's output has ended with its box. A nil one has none.
func (a *attended) await(ctx context.Context) error {
	if a == nil {
		return nil
	}
	select {
	case <-a.ended:
		return nil
	case <-ctx.Done():
		return errors.New("the output of a grader's program did not end with its sandbox")
	}
}

func outputOf(said *bounded.Head) evidence.Output {
	return evidence.Output{Text: said.String(), Cut: said.Over()}
}
