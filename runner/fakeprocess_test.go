package runner

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/waza-isolate/waza/sandbox/process"
)

// program is a Go function in place of a container's program.
type program struct {
	run      func(p *fakeProcess) (code int)
	deaf     bool // takes no notice of SIGTERM
	immortal bool // nor of SIGKILL
}

// ends is a program that exits at once.
func ends(code int) program { return program{run: func(*fakeProcess) int { return code }} }

// says is a program that writes text to stdout.
func says(text string) program {
	return program{run: func(p *fakeProcess) int { io.WriteString(p.out, text); return 0 }}
}

// lasts is a program that runs until it is ended.
func lasts() program {
	return program{run: func(p *fakeProcess) int { <-p.ctx.Done(); return 0 }}
}

// fakeProcess is a running program: both ends of its pipes.
type fakeProcess struct {
	program   program
	spec      process.Spec
	container *fakeSandbox

	ctx      context.Context // ends with the process
	in       *io.PipeReader
	out, err *io.PipeWriter

	stdin          *io.PipeWriter
	stdout, stderr *io.PipeReader

	cancel context.CancelFunc
	once   sync.Once
	done   chan struct{}
	exit   process.Exit // set before done is closed
	lost   error        // set before done is closed
}

var errGone = errors.New("container went away")

func startFake(container *fakeSandbox, spec process.Spec, prog program) *fakeProcess {
	p := &fakeProcess{program: prog, spec: spec, container: container, done: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.in, p.stdin = io.Pipe()
	p.stdout, p.out = io.Pipe()
	p.stderr, p.err = io.Pipe()
	container.running.Go(func() { p.end(process.Exit{Code: prog.run(p)}, nil) })
	return p
}

// end ends the process; only the first call counts. It does not interrupt a pending write to
// stdin: the runner must not rely on that.
func (p *fakeProcess) end(exit process.Exit, lost error) {
	p.once.Do(func() {
		p.exit, p.lost = exit, lost
		p.cancel()
		p.out.CloseWithError(lost) // nil is EOF
		p.err.CloseWithError(lost)
		close(p.done)
	})
}

func (p *fakeProcess) Stdin() io.WriteCloser { return p.stdin }
func (p *fakeProcess) Stdout() io.Reader     { return p.stdout }
func (p *fakeProcess) Stderr() io.Reader     { return p.stderr }

func (p *fakeProcess) Signal(s process.Signal) error {
	p.container.did("signal " + string(s))
	if p.program.immortal || p.program.deaf && s == process.Terminate {
		return nil
	}
	p.end(process.Exit{Code: -1, Signal: string(s)}, nil)
	return nil
}

func (p *fakeProcess) Wait() (process.Exit, error) {
	<-p.done
	return p.exit, p.lost
}
