package guest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/waza-isolate/waza/internal/tree/treetest"
	"github.com/waza-isolate/waza/sandbox/process"
)

// TestRunnerHoldsNoMoreThanItsLimit has a guest end its side of each stream at
// once, which frees its place in the guard, while the runner is slow to close.
func TestRunnerHoldsNoMoreThanItsLimit(t *testing.T) {
	const tries = 3 * maxInbound
	opened := make(chan error, 1)
	g, err := hostile(t, func(session *yamux.Session, pipe net.Conn) {
		accept, err := session.Accept()
		if err != nil {
			return
		}
		l := linkOf(accept)
		if _, _, err := l.message(); err != nil || l.writeJSON(kindReply, reply{Addr: "here"}) != nil {
			return
		}
		var message bytes.Buffer
		_ = linkOf(&cutting{out: &message, left: maxPayload}).writeJSON(kindRequest, request{Verb: "conn", Accept: 1})
		for i := range uint32(tries) {
			id := 2*i + 100
			frames := muxHeader(0, muxData, muxSYN, id, uint32(message.Len()))
			frames = append(frames, message.Bytes()...)
			if _, err := pipe.Write(append(frames, muxHeader(0, muxWindowUpdate, muxFIN, id, 0)...)); err != nil {
				opened <- err
				return
			}
		}
		opened <- nil
		l.drain()
		_ = accept.Close()
	})
	must(t, err)
	ln, err := g.Listen(t.Context(), "here")
	must(t, err)
	var conns []net.Conn
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conns = append(conns, conn)
		}
	})
	must(t, <-opened)
	if _, err := g.pipe.Ping(); err != nil { // all that came before it is taken in
		t.Fatal(err)
	}
	// Beside those held and those not yet looked at: the accept, the hello and one
	// that is being refused.
	if n := g.pipe.NumStreams(); n > maxInbound+acceptedAhead+3 {
		t.Errorf("%d streams are held", n)
	}
	must(t, ln.Close())
	accepting.Wait()
	if len(conns) == 0 || len(conns) > maxInbound {
		t.Errorf("%d connections are held", len(conns))
	}
	must(t, g.Err())
	for _, conn := range conns {
		_ = conn.Close()
	}
}

// TestCallsEndWithTheirContext has a guest that takes in nothing any more, so
// that yamux cannot open another stream after some.
func TestCallsEndWithTheirContext(t *testing.T) {
	silent := make(chan struct{})
	g, err := hostile(t, func(*yamux.Session, net.Conn) { <-silent })
	must(t, err)
	defer close(silent)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	calls := map[string]func() error{
		"dial":   func() error { _, err := g.Dial(ctx, "x:1"); return err },
		"listen": func() error { _, err := g.Listen(ctx, "x:1"); return err },
		"exec":   func() error { _, err := g.Exec(ctx, process.Spec{Args: []string{"x"}}, false); return err },
		"put":    func() error { return g.Put(ctx, "/", endless{}) },
		"get":    func() error { return g.Get(ctx, "/", nil, io.Discard) },
	}
	var all sync.WaitGroup
	for name, call := range calls {
		for range acceptedAhead { // each verb alone fills what yamux opens ahead
			all.Go(func() {
				if err := call(); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: got %v", name, err)
				}
			})
		}
	}
	within(t, 10*time.Second, "calls", all.Wait)
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestPutEndsEarly checks that neither a reader that fails nor a guest that
// refuses while more is to come holds up the runner.
func TestPutEndsEarly(t *testing.T) { overBoth(t, testPutEndsEarly) }

func testPutEndsEarly(t *testing.T, g *Guest) {
	dir := t.TempDir()
	whole := treetest.Tar(t, 0o644, treetest.Entry{Name: "a", Content: string(make([]byte, 1<<20))})
	broken := errors.New("broken")
	within(t, 10*time.Second, "put", func() {
		err := g.Put(t.Context(), dir, io.MultiReader(newFirst(whole, 100_000), failing{broken}))
		if err == nil {
			t.Error("half a tar was put")
		}
		var why Refused
		err = g.Put(t.Context(), dir, io.MultiReader(newFirst(treetest.Tar(t, 0o644, treetest.Entry{Name: "../x", Content: "x"}), 1024), endless{}))
		if !errors.As(err, &why) {
			t.Errorf("got %v, want the guest's reason", err)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	within(t, 10*time.Second, "put", func() {
		err := g.Put(ctx, dir, io.MultiReader(newFirst(whole, 100_000), &cancels{cancel: cancel}))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	must(t, g.Put(t.Context(), dir, newFirst(whole, len(whole)))) // the session lives on
}

func newFirst(p []byte, n int) io.Reader { return &first{p[:n]} }

// first reads bytes in small pieces and has no other methods.
type first struct{ left []byte }

func (f *first) Read(p []byte) (int, error) {
	if len(f.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1000)], f.left)
	f.left = f.left[n:]
	return n, nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// cancels goes on without an end after it has cancelled.
type cancels struct {
	cancel context.CancelFunc
	endless
}

func (c *cancels) Read(p []byte) (int, error) {
	c.cancel()
	return c.endless.Read(p)
}
