package serve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// wires is a listener of connections in memory, which wait as those of a network do.
type wires struct {
	calls chan net.Conn
	over  chan struct{}
	once  sync.Once
}

func newWires() *wires { return &wires{calls: make(chan net.Conn), over: make(chan struct{})} }

func (w *wires) Accept() (net.Conn, error) {
	select {
	case c := <-w.calls:
		return c, nil
	case <-w.over:
		return nil, net.ErrClosed
	}
}

func (w *wires) Close() error {
	w.once.Do(func() { close(w.over) })
	return nil
}

func (w *wires) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8417} }

// wire is the server's end of a connection, which knows when it was closed.
type wire struct {
	net.Conn
	ended chan time.Time
}

func (w *wire) Close() error {
	select {
	case w.ended <- time.Now():
	default:
	}
	return w.Conn.Close()
}

// dial waits until it is let in; the time when the server closes comes from ended.
func (w *wires) dial() (c net.Conn, ended <-chan time.Time) {
	here, there := net.Pipe()
	s := &wire{there, make(chan time.Time, 1)}
	select {
	case w.calls <- s:
	case <-w.over:
		_ = here.Close()
	}
	return here, s.ended
}

// wired serves dir in a bubble of its own time, as does.
func wired(t *testing.T, dir string, does func(t *testing.T, s *Server, w *wires)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, w := New(dir), newWires()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx, w) }()
		does(t, s, w)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// linger is how long net/http keeps a connection whose request's body it has not read,
// so that the client reads its answer before the connection is reset
// (rstAvoidanceDelay). Whether it does depends on which of its goroutines is first.
const linger = 500 * time.Millisecond

// TestSlowClients has clients that send by the drop, take nothing in, or keep what they
// have: each is left when its time is over, and not before.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lay(t, filepath.Join(makeRun(t, dir, "a"), "large"), strings.Repeat("x", 1<<20))
	for name, test := range map[string]struct {
		sends string // TOKEN and FILE in it
		reads bool
		after time.Duration
	}{
		"sends nothing":           {"", false, headerTime},
		"sends a half request":    {"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", false, headerTime},
		"keeps its body":          {"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n", true, headerTime},
		"keeps chunks of a body":  {"POST /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", true, headerTime},
		"asks for nothing more":   {"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", true, idleTime},
		"takes in no large file":  {"GET /runs/a/files/large HTTP/1.1\r\nHost: localhost\r\nCookie: waza-serve-8417=TOKEN\r\n\r\n", false, patience},
		"takes in no page":        {"GET /runs/a/overview HTTP/1.1\r\nHost: localhost\r\nCookie: waza-serve-8417=TOKEN\r\n\r\n", false, patience},
		"takes in no redirection": {"GET /?token=TOKEN HTTP/1.1\r\nHost: localhost\r\n\r\n", false, patience},
		"takes in no refusal":     {"GET / HTTP/1.1\r\nHost: attacker.example\r\n\r\n", false, patience},
	} {
		wired(t, dir, func(t *testing.T, s *Server, w *wires) {
			began := time.Now()
			c, ended := w.dial()
			defer func() { _ = c.Close() }()
			if _, err := io.WriteString(c, strings.ReplaceAll(test.sends, "TOKEN", s.token)); err != nil {
				t.Error(err)
			}
			if test.reads {
				go func() { _, _ = io.Copy(io.Discard, c) }()
			}
			select {
			case at := <-ended:
				if took := at.Sub(began); took < test.after || took > test.after+linger {
					t.Errorf("who %s is left after %s, want %s", name, took, test.after)
				}
			case <-time.After(time.Hour):
				t.Errorf("who %s is still waited for", name)
			}
		})
	}
}

// Who takes in a large answer slowly, but takes it in, gets all of it.
func TestSlowAndSteady(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const size, part = 1 << 20, 64 << 10
	lay(t, filepath.Join(makeRun(t, dir, "a"), "large"), strings.Repeat("x", size))
	wired(t, dir, func(t *testing.T, s *Server, w *wires) {
		c, _ := w.dial()
		defer func() { _ = c.Close() }()
		if _, err := fmt.Fprintf(c, "GET /runs/a/files/large HTTP/1.1\r\nHost: localhost\r\nCookie: waza-serve-8417=%s\r\n\r\n", s.token); err != nil {
			t.Error(err)
		}
		got, err := http.ReadResponse(bufio.NewReaderSize(c, part), nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = got.Body.Close() }()
		for read := 0; read < size; read += part {
			time.Sleep(patience * 2 / 3)
			if _, err := io.ReadFull(got.Body, make([]byte, part)); err != nil {
				t.Errorf("behind %d bytes: %v", read, err)
				return
			}
		}
	})
}

// TestMaxConnections has as many answers go on as there may be connections: another one
// waits until one of them is closed.
func TestMaxConnections(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lay(t, filepath.Join(makeRun(t, dir, "a"), "large"), strings.Repeat("x", 1<<20))
	wired(t, dir, func(t *testing.T, s *Server, w *wires) {
		var first net.Conn
		for range maxConnections {
			c, _ := w.dial()
			defer func() { _ = c.Close() }()
			if _, err := fmt.Fprintf(c, "GET /runs/a/files/large HTTP/1.1\r\nHost: localhost\r\nCookie: waza-serve-8417=%s\r\n\r\n", s.token); err != nil {
				t.Error(err)
			}
			if first == nil {
				first = c
			}
			synctest.Wait()
		}
		in := make(chan net.Conn, 1)
		go func() {
			c, _ := w.dial()
			in <- c
		}()
		synctest.Wait()
		select {
		case c := <-in:
			t.Errorf("%d connections are open", maxConnections+1)
			in <- c
		default:
		}
		_ = first.Close()
		defer func() { _ = (<-in).Close() }()
		synctest.Wait()
	})
}

// Who opens as many connections as there may be, and asks for nothing there or asks
// without the token, keeps nobody out for longer than a request may take.
func TestManyWait(t *testing.T) {
	t.Parallel()
	for _, sends := range []string{
		"",
		"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
		"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		wired(t, t.TempDir(), func(t *testing.T, s *Server, w *wires) {
			for range maxConnections {
				c, _ := w.dial()
				defer func() { _ = c.Close() }()
				go func() { _, _ = io.Copy(io.Discard, c) }()
				if _, err := io.WriteString(c, sends); err != nil {
					t.Error(err)
				}
			}
			began := time.Now()
			honest, _ := w.dial()
			defer func() { _ = honest.Close() }()
			if _, err := fmt.Fprintf(honest, "GET / HTTP/1.1\r\nHost: localhost\r\nCookie: waza-serve-8417=%s\r\n\r\n", s.token); err != nil {
				t.Error(err)
			}
			got, err := http.ReadResponse(bufio.NewReader(honest), nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = got.Body.Close() }()
			if took := time.Since(began); got.StatusCode != http.StatusOK || took > headerTime {
				t.Errorf("after %q: %s after %s", sends, got.Status, took)
			}
		})
	}
}
