package guest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/waza-isolate/waza/sandbox/process"
)

func listenAt(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	must(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

// startOverSocket starts a guest whose requests go over a socket, and returns its pipe.
func startOverSocket(t *testing.T) (*Guest, *stdioPipe) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	g, pipe := startGuestWith(t, listenAt(t, path), path)
	if !g.Hello().Socket {
		t.Fatal("the guest has not taken the socket")
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	return g, pipe
}

// A guest that has a socket works over it.
func TestOverSocket(t *testing.T) {
	g, _ := startOverSocket(t)
	must(t, g.Ping(t.Context()))
	p, err := g.Exec(t.Context(), process.Spec{Args: []string{"/bin/true"}}, false)
	must(t, err)
	if exit, err := p.Wait(); err != nil || exit.Code != 0 {
		t.Errorf("true ended with %v, %v", exit, err)
	}
}

// A guest whose requests go over a socket ends with its pipe: the engine closes that
// when it ends, or when the runner does.
func TestSocketEndsWithPipe(t *testing.T) {
	g, pipe := startOverSocket(t)
	must(t, pipe.Close()) // the test's cleanup waits for the guest
	select {
	case <-g.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("the session goes on")
	}
	if g.Err() == nil || g.Ping(t.Context()) == nil {
		t.Errorf("the guest still answers; its session ended with %v", g.Err())
	}
}

// overSocket connects as a guest does that says it is on a socket, after dial has done
// what it likes with the path of the socket, which is "" where the guest was given none.
func overSocket(t *testing.T, ln *net.UnixListener, dial func() io.ReadWriteCloser) (*Guest, net.Conn, *yamux.Session, error) {
	t.Helper()
	near, far := net.Pipe()
	session, err := yamux.Server(far, muxConfig(3*time.Second))
	must(t, err)
	var requests *yamux.Session
	if conn := dial(); conn != nil {
		requests, err = yamux.Server(conn, muxConfig(3*time.Second))
		must(t, err)
		t.Cleanup(func() { _ = requests.Close() })
	}
	go func() {
		if stream, err := session.Accept(); err == nil {
			l := &link{stream: stream}
			_, _, _ = l.message()
			_ = l.writeJSON(kindReply, reply{Hello: &Hello{Socket: true}})
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	g, err := Connect(ctx, near, ln)
	t.Cleanup(func() {
		if g != nil {
			_ = g.Close()
		}
		_, _ = session.Close(), far.Close()
	})
	return g, far, requests, err
}

// A guest that breaks a rule of the socket ends its session.
func TestHostileSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	dial := func() io.ReadWriteCloser {
		conn, err := net.Dial("unix", path)
		must(t, err)
		return conn
	}
	none := func() io.ReadWriteCloser { return nil }
	if _, _, _, err := overSocket(t, nil, none); !errors.Is(err, ErrProtocol) {
		t.Errorf("a guest without a socket: %v", err)
	}
	if _, _, _, err := overSocket(t, listenAt(t, path), none); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a guest that does not connect: %v", err)
	}
	for name, attack := range map[string]func(pipe net.Conn, requests *yamux.Session){
		"garbage on the pipe": func(pipe net.Conn, _ *yamux.Session) { _, _ = io.WriteString(pipe, "this is no mux\n") },
		"gives the mux up":    func(_ net.Conn, requests *yamux.Session) { _ = requests.GoAway() },
		"a stream that nobody asked for": func(_ net.Conn, requests *yamux.Session) {
			if stream, err := requests.Open(); err == nil {
				_ = (&link{stream: stream}).writeJSON(kindRequest, request{Verb: "exec"})
			}
		},
	} {
		ln := listenAt(t, path)
		conn := dial()
		second := dial().(net.Conn) // waits to be accepted
		g, pipe, requests, err := overSocket(t, ln, func() io.ReadWriteCloser { return conn })
		must(t, err)
		must(t, second.SetReadDeadline(time.Now().Add(2*time.Second)))
		if _, err := second.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: a second connection: %v", name, err)
		}
		attack(pipe, requests)
		select {
		case <-g.Done():
		case <-time.After(2 * time.Second):
			t.Fatalf("%s: the session goes on", name)
		}
		if !errors.Is(g.Err(), ErrProtocol) {
			t.Errorf("%s: %v", name, g.Err())
		}
	}
}
