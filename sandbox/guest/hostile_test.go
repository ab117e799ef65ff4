package guest

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/hashicorp/yamux"
)

// hostile answers the runner's hello as a guest would and then does as it likes.
func hostile(t *testing.T, attack func(session *yamux.Session, pipe net.Conn)) (*Guest, error) {
	t.Helper()
	near, far := net.Pipe()
	session, err := yamux.Server(far, muxConfig(3*time.Second))
	must(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		stream, err := session.Accept()
		if err != nil {
			return
		}
		l := linkOf(stream)
		if _, _, err := l.message(); err != nil {
			return
		}
		if err := l.writeJSON(kindReply, reply{Hello: &Hello{UID: 1000}}); err != nil {
			return
		}
		attack(session, far)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	g, err := Connect(ctx, near, nil)
	t.Cleanup(func() {
		if g != nil {
			_ = g.Close()
		}
		_ = session.Close()
		_ = far.Close()
		<-ended
	})
	return g, err
}

// A breach is recorded before the operations on the session fail, so that the caller that
// looks for the reason finds it.
func TestBreachIsKnownFirst(t *testing.T) {
	for range 50 {
		attack := make(chan struct{})
		g, err := hostile(t, func(_ *yamux.Session, pipe net.Conn) {
			<-attack
			_, _ = pipe.Write(muxHeader(0, muxData, 0, 1_000_000, 1<<30))
		})
		must(t, err)
		failed := make(chan error)
		go func() {
			for g.Ping(t.Context()) == nil {
			}
			failed <- g.Err()
		}()
		close(attack)
		if err := <-failed; !errors.Is(err, ErrProtocol) {
			t.Fatalf("what failed found %v", err)
		}
	}
}

// TestHostileGuests has guests break each rule. The session must end, and the
// runner must not have grown by much.
func TestHostileGuests(t *testing.T) {
	write := func(pipe net.Conn, header func(i uint32) []byte) {
		for i := uint32(0); i < 100_000; i++ {
			if _, err := pipe.Write(header(i)); err != nil {
				return
			}
		}
	}
	attacks := map[string]func(session *yamux.Session, pipe net.Conn){
		"opens streams": func(_ *yamux.Session, pipe net.Conn) {
			write(pipe, func(i uint32) []byte { return muxHeader(0, muxWindowUpdate, muxSYN, 2*i+100, 0) })
		},
		"pings": func(_ *yamux.Session, pipe net.Conn) {
			write(pipe, func(i uint32) []byte { return muxHeader(0, muxPing, muxSYN, 0, i) })
		},
		"writes garbage": func(_ *yamux.Session, pipe net.Conn) {
			write(pipe, func(uint32) []byte { return []byte("GET / HTTP/1.1\r\n") })
		},
		"opens a stream that nobody asked for": func(session *yamux.Session, _ net.Conn) {
			if stream, err := session.Open(); err == nil {
				_ = linkOf(stream).writeJSON(kindRequest, request{Verb: "exec", Args: []string{"sh"}})
			}
		},
		"sends a message too long": func(session *yamux.Session, _ net.Conn) {
			if stream, err := session.Open(); err == nil {
				header := binary.BigEndian.AppendUint32([]byte{byte(kindRequest)}, 1<<31)
				_, _ = stream.Write(header)
				_, _ = io.Copy(io.Discard, stream)
			}
		},
		"gives the mux up": func(session *yamux.Session, _ net.Conn) { _ = session.GoAway() },
		"answers with an answer to nothing": func(session *yamux.Session, _ net.Conn) {
			if stream, err := session.Accept(); err == nil {
				_ = linkOf(stream).write(kindStderr, []byte("?"))
			}
		},
	}
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			g, err := hostile(t, attack)
			if err == nil {
				_, _ = g.Dial(t.Context(), "x:1")
				within(t, 10*time.Second, "end of the session", func() { <-g.Done() })
				err = g.Err()
			}
			if !errors.Is(err, ErrProtocol) {
				t.Errorf("the session ended with %v, which breaks no rule", err)
			}
			runtime.ReadMemStats(&after)
			if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 64<<20 {
				t.Errorf("the runner grew by %d MB", grown>>20)
			}
		})
	}
}

// TestTheGuardMatters shows what yamux takes without it: more streams at once
// than a guest may open, and every ping of a flood.
func TestTheGuardMatters(t *testing.T) {
	near, far := net.Pipe()
	config := muxConfig(time.Minute)
	config.AcceptBacklog = 4 * maxInbound // none is refused for nobody's having taken it yet
	session, err := yamux.Client(near, config)
	must(t, err)
	defer func() { _ = session.Close() }()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	for i := range uint32(4 * maxInbound) {
		_, err := far.Write(muxHeader(0, muxWindowUpdate, muxSYN, 2*i+2, 0))
		must(t, err)
	}
	for i := range uint32(4 * pingBurst) {
		_, err := far.Write(muxHeader(0, muxPing, muxSYN, 0, i))
		must(t, err)
	}
	within(t, time.Minute, "streams", func() {
		for session.NumStreams() <= maxInbound && !session.IsClosed() {
			runtime.Gosched()
		}
	})
	if got := session.NumStreams(); got <= maxInbound {
		t.Errorf("%d streams without a guard: it would not be needed", got)
	}
}

// A guest that only goes away broke no rule.
func TestGoneIsNoBreach(t *testing.T) {
	g, err := hostile(t, func(session *yamux.Session, _ net.Conn) { _ = session.Close() })
	must(t, err)
	within(t, 10*time.Second, "end of the session", func() { <-g.Done() })
	if err := g.Err(); err == nil || errors.Is(err, ErrProtocol) {
		t.Errorf("the session ended with %v", err)
	}
	if err := g.Ping(t.Context()); err == nil {
		t.Error("nobody answers")
	}
}

func TestPing(t *testing.T) {
	if err := startGuest(t).Ping(t.Context()); err != nil {
		t.Error(err)
	}
}
