package process_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waza-isolate/waza/sandbox/process"
)

// program ends by one signal, says what it was given on stdin, and remembers its signals.
type program struct {
	endsBy process.Signal
	ended  chan struct{}
	in     *io.PipeReader
	stdin  *io.PipeWriter

	mu      sync.Mutex
	signals []process.Signal // guarded by mu
}

func newProgram(endsBy process.Signal) *program {
	p := &program{endsBy: endsBy, ended: make(chan struct{})}
	p.in, p.stdin = io.Pipe()
	return p
}

func (p *program) Stdin() io.WriteCloser { return p.stdin }
func (p *program) Stdout() io.Reader     { return p.in }
func (p *program) Stderr() io.Reader     { return strings.NewReader("complaint") }

func (p *program) Signal(s process.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.signals = append(p.signals, s); s == p.endsBy {
		close(p.ended)
	}
	return nil
}

func (p *program) Wait() (process.Exit, error) {
	<-p.ended
	return process.Exit{Code: -1, Signal: string(p.endsBy)}, nil
}

func TestCommunicate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProgram(process.Terminate)
		var stdout, stderr strings.Builder
		r := process.Communicate(p, []byte("hello"), &stdout, &stderr)
		if synctest.Wait(); r.HasEnded() {
			t.Error("it has ended by itself")
		}
		_ = r.Signal(process.Terminate)
		if exit, err := r.Wait(); exit.Signal != "SIGTERM" || err != nil || stdout.String() != "hello" || stderr.String() != "complaint" || !r.HasEnded() {
			t.Errorf("%+v, %v: %q and %q", exit, err, &stdout, &stderr)
		}
	})
}

// A program gets each signal after the grace of the one before, and none once it has ended.
func TestStop(t *testing.T) {
	steps := []process.Step{{Grace: time.Second}, {Signal: process.Terminate, Grace: time.Second}, {Signal: process.Kill, Grace: time.Second}}
	for endsBy, want := range map[process.Signal]struct {
		took    time.Duration
		signals []process.Signal
		ends    bool
	}{
		process.Terminate: {time.Second, []process.Signal{process.Terminate}, true},
		process.Kill:      {2 * time.Second, []process.Signal{process.Terminate, process.Kill}, true},
		"none":            {3 * time.Second, []process.Signal{process.Terminate, process.Kill}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			p, began := newProgram(endsBy), time.Now()
			r := process.Communicate(p, nil, io.Discard, io.Discard)
			if ends := r.Stop(t.Context(), steps...); ends != want.ends || time.Since(began) != want.took || !slices.Equal(p.signals, want.signals) {
				t.Errorf("%s: %v after %v, by %v", endsBy, ends, time.Since(began), p.signals)
			}
			if !want.ends {
				_ = p.Signal(endsBy)
			}
		})
	}
}

// Whoever has no time left gives none to the program.
func TestStopWithoutTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p, began := newProgram(process.Kill), time.Now()
		r := process.Communicate(p, nil, io.Discard, io.Discard)
		r.Stop(ctx, process.Step{Signal: process.Terminate, Grace: time.Hour}, process.Step{Signal: process.Kill, Grace: time.Hour})
		if _, _ = r.Wait(); time.Since(began) > 0 {
			t.Errorf("after %v, by %v", time.Since(began), p.signals)
		}
	})
}

func TestWaitOrKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		quick := newProgram(process.Interrupt)
		_ = quick.Signal(process.Interrupt)
		if !process.Communicate(quick, nil, io.Discard, io.Discard).WaitOrKill(ctx, time.Second) || len(quick.signals) != 1 {
			t.Errorf("one that ends is sent %v", quick.signals)
		}
		slow := newProgram(process.Kill)
		if process.Communicate(slow, nil, io.Discard, io.Discard).WaitOrKill(ctx, time.Second) || !slices.Equal(slow.signals, []process.Signal{process.Kill}) {
			t.Errorf("one that does not end in time is sent %v", slow.signals)
		}
	})
}
