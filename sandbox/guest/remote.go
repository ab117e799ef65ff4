package guest

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/waza-isolate/waza/sandbox/process"
)

// signalTimeout bounds sending a signal.
const signalTimeout = 5 * time.Second

// remote is a program in the container, at the runner's end.
type remote struct {
	guest  *Guest
	pid    int
	link   *link
	stdin  *dataWriter
	stdout *io.PipeReader
	stderr *io.PipeReader
	ended  chan struct{}
	exit   process.Exit // valid after ended is closed
	err    error        // valid after ended is closed
}

func newRemote(g *Guest, pid int, l *link) *remote {
	outR, outW := io.Pipe()
	errR, errW := io.Pipe()
	r := &remote{
		guest:  g,
		pid:    pid,
		link:   l,
		stdin:  &dataWriter{link: l, data: kindData, eof: kindEOF},
		stdout: outR,
		stderr: errR,
		ended:  make(chan struct{}),
	}
	go r.receive(outW, errW)
	return r
}

func (r *remote) receive(stdout, stderr *io.PipeWriter) {
	r.exit, r.err = r.sort(stdout, stderr)
	_ = stdout.CloseWithError(r.err)
	_ = stderr.CloseWithError(r.err)
	_ = r.link.stream.Close()
	close(r.ended)
}

// sort distributes messages to stdout and stderr until the exit. Output without reader is
// dropped, so that it does not block the other one.
func (r *remote) sort(stdout, stderr *io.PipeWriter) (process.Exit, error) {
	for {
		k, p, err := r.link.message()
		if err != nil {
			return process.Exit{}, fmt.Errorf("container went away: %w", err)
		}
		switch k {
		case kindData:
			_, _ = stdout.Write(p)
		case kindStderr:
			_, _ = stderr.Write(p)
		case kindEOF:
			_ = stdout.Close()
		case kindStderrEOF:
			_ = stderr.Close()
		case kindExit:
			exit, err := parseExit(p)
			if err != nil {
				err = r.link.breach(err)
			}
			return exit, err
		default:
			return process.Exit{}, r.link.breach(fmt.Errorf("%w: message kind %d from a program", ErrProtocol, k))
		}
	}
}

func (r *remote) Stdin() io.WriteCloser { return r.stdin }
func (r *remote) Stdout() io.Reader     { return r.stdout }
func (r *remote) Stderr() io.Reader     { return r.stderr }

func (r *remote) Signal(s process.Signal) error {
	ctx, cancel := context.WithTimeout(context.Background(), signalTimeout)
	defer cancel()
	_, err := r.guest.call(ctx, request{Verb: "signal", PID: r.pid, Signal: s})
	return err
}

func (r *remote) Wait() (process.Exit, error) {
	<-r.ended
	return r.exit, r.err
}
