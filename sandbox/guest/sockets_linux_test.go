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
)

func listenAt(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	must(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

// startOverSockets starts a guest whose requests go over sockets, and returns its pipe.
func startOverSockets(t *testing.T) (*Guest, *stdioPipe) {
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

// A guest whose requests go over sockets ends with its pipe: the engine closes that
// when it ends, or when the runner does.
func TestSocketsEndWithPipe(t *testing.T) {
	g, pipe := startOverSockets(t)
	must(t, g.Ping(t.Context()))
	p, err := g.Exec(t.Context(), sh("sleep 100"), false)
	must(t, err)
	must(t, pipe.Close()) // the test's cleanup waits for the guest
	within(t, 20*time.Second, "the end of the session and of its streams", func() {
		<-g.Done()
		if _, err := p.Wait(); err == nil {
			t.Error("a program ended well with its session")
		}
	})
	if g.Err() == nil || g.Ping(t.Context()) == nil {
		t.Errorf("the guest still answers; its session ended with %v", g.Err())
	}
}

// overSockets connects to a guest that claims to be on a socket. With connects the guest
// also dials ln, and control is that connection.
func overSockets(t *testing.T, ln *net.UnixListener, connects bool) (g *Guest, pipe net.Conn, control *net.UnixConn, err error) {
	t.Helper()
	near, far := net.Pipe()
	session, err := yamux.Server(far, muxConfig(3*time.Second))
	must(t, err)
	if connects {
		control, err = net.DialUnix("unix", nil, ln.Addr().(*net.UnixAddr))
		must(t, err)
		t.Cleanup(func() { _ = control.Close() })
	}
	go func() {
		if stream, err := session.Accept(); err == nil {
			l := linkOf(stream)
			_, _, _ = l.message()
			_ = l.writeJSON(kindReply, reply{Hello: &Hello{Socket: true}})
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), acceptTimeout)
	if !connects {
		ctx, cancel = context.WithTimeout(t.Context(), acceptTimeout/5)
	}
	defer cancel()
	g, err = Connect(ctx, near, ln)
	t.Cleanup(func() {
		if g != nil {
			_ = g.Close()
		}
		_, _ = session.Close(), far.Close()
	})
	return g, far, control, err
}

// A guest that breaks a rule of sockets ends its session.
func TestHostileSockets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if _, _, _, err := overSockets(t, nil, false); !errors.Is(err, ErrProtocol) {
		t.Errorf("a guest without a socket: %v", err)
	}
	if _, _, _, err := overSockets(t, listenAt(t, path), false); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a guest that does not connect: %v", err)
	}
	// use answers the runner's request to listen, and returns the first socket for a connection.
	use := func(control *net.UnixConn) *link {
		for {
			use, s, err := receiveSocket(control)
			if err != nil {
				return newLink(plain{control})
			}
			if use == useSpare {
				return newLink(s)
			}
			l := newLink(s)
			_, _, _ = l.message()
			_ = l.writeJSON(kindReply, reply{Addr: "here"})
		}
	}
	for name, attack := range map[string]func(pipe net.Conn, control *net.UnixConn){
		"garbage on the pipe":     func(pipe net.Conn, _ *net.UnixConn) { _, _ = io.WriteString(pipe, "this is no mux\n") },
		"bytes on the connection": func(_ net.Conn, control *net.UnixConn) { _, _ = io.WriteString(control, "x") },
		"a descriptor there":      func(_ net.Conn, control *net.UnixConn) { _, _ = handSocket(control, useRequest) },
		"a stream nobody asked for": func(_ net.Conn, control *net.UnixConn) {
			_ = use(control).writeJSON(kindRequest, request{Verb: "exec"})
		},
		"no peer's address": func(_ net.Conn, control *net.UnixConn) {
			_ = use(control).writeJSON(kindRequest, request{Verb: "conn", Accept: 1, Addr: "x"})
		},
		"a message too long": func(_ net.Conn, control *net.UnixConn) {
			_, _ = use(control).stream.Write([]byte{byte(kindRequest), 0xff, 0, 0, 0})
		},
	} {
		ln := listenAt(t, path)
		g, pipe, control, err := overSockets(t, ln, true)
		must(t, err)
		if second, err := net.Dial("unix", path); err == nil {
			t.Errorf("%s: a second connection", name)
			_ = second.Close()
		}
		go func() { _, _ = g.Listen(t.Context(), "here") }()
		attack(pipe, control)
		within(t, 20*time.Second, name, func() { <-g.Done() })
		if !errors.Is(g.Err(), ErrProtocol) {
			t.Errorf("%s: %v", name, g.Err())
		}
	}
}

// A guest that uses all sockets that it gets, and ends its side of each, gets no more than it
// may hold, and its next when the runner has closed one.
func TestSocketsAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	g, _, control, err := overSockets(t, listenAt(t, path), true)
	must(t, err)
	used := make(chan int, 2*maxInbound)
	go func() {
		defer close(used)
		for n := 0; ; {
			use, s, err := receiveSocket(control)
			if err != nil {
				return
			}
			l := newLink(s)
			if use == useRequest {
				_, _, _ = l.message()
				_ = l.writeJSON(kindReply, reply{Addr: "here"})
				continue
			}
			_ = l.writeJSON(kindRequest, request{Verb: "conn", Accept: 1})
			_ = s.Close()
			n++
			used <- n
		}
	}()
	ln, err := g.Listen(t.Context(), "here")
	must(t, err)
	for n := range used {
		if n == inboundLimit() {
			break
		}
	}
	select {
	case n := <-used:
		t.Errorf("the guest got %d sockets", n)
	case <-time.After(100 * time.Millisecond):
	}
	conn, err := ln.Accept()
	must(t, err)
	must(t, conn.Close())
	within(t, 20*time.Second, "the next socket", func() { <-used })
	must(t, g.Err())
	must(t, g.Close())
	for range used {
	}
}
