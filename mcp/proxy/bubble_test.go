package proxy_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
	"github.com/waza-isolate/waza/sandbox/process"
)

// inBubble runs f with a scripted server called "s" where time passes only while
// everybody waits for it: server, proxy and agent are goroutines and talk through
// memory.
func inBubble(t *testing.T, timeout time.Duration, f func(*testing.T, *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		listener := &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{})}
		f(t, benchOn(t, listener, listener.dial, limits{}, proxy.Server{Server: transport.Server{Name: "s", Launch: launchScripted, Timeout: timeout}}))
	})
}

// memoryListener takes connections that are pipes.
type memoryListener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *memoryListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (l *memoryListener) dial(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// goProcess is a scripted server as a goroutine, which ends with its stdin.
type goProcess struct {
	stdin          *io.PipeWriter
	stdout, stderr *io.PipeReader
	ended          chan struct{}
}

func launchScripted(context.Context) (process.Process, error) {
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	stderr, complaints := io.Pipe()
	p := &goProcess{stdin: stdin, stdout: stdout, stderr: stderr, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		scriptedServer(in, out, complaints)
		_ = in.Close()
		_ = out.Close()
		_ = complaints.Close()
	}()
	return p, nil
}

func (p *goProcess) Stdin() io.WriteCloser       { return p.stdin }
func (p *goProcess) Stdout() io.Reader           { return p.stdout }
func (p *goProcess) Stderr() io.Reader           { return p.stderr }
func (p *goProcess) Signal(process.Signal) error { return nil }
func (p *goProcess) Wait() (process.Exit, error) { <-p.ended; return process.Exit{}, nil }
