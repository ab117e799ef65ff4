package guest

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/waza-isolate/waza/internal/heavytest"
	"github.com/waza-isolate/waza/internal/memtest"
	"github.com/waza-isolate/waza/sandbox/process"
)

const victimRole = "runner"

// victim is the runner's end of a session with a container: it listens there, accepts
// connections without reading from them, runs a program, resolves names and copies out a
// tree.
func victim(ready func(string), stop <-chan struct{}) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	ready(listener.Addr().String())
	pipe, err := listener.Accept()
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	g, err := Connect(ctx, pipe, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		<-stop
		return
	}
	go func() {
		in, err := g.Listen(ctx, "127.0.0.1:80")
		for err == nil {
			_, err = in.Accept()
		}
	}()
	go func() { _ = g.Resolve(ctx, nil, func(Question) {}) }()
	go func() { _, _ = g.Exec(ctx, process.Spec{Args: []string{"x"}}, false) }() // nobody reads its output
	go func() { _ = g.Get(ctx, "/", nil, io.Discard) }()
	<-stop
	_ = g.Close()
}

// floodedStream sends messages of a kind until the stream takes no more.
func floodedStream(stream net.Conn, k kind) {
	payload := make([]byte, maxPayload)
	message := binary.BigEndian.AppendUint32([]byte{byte(k)}, maxPayload)
	message = append(message, payload...)
	for {
		if _, err := stream.Write(message); err != nil {
			return
		}
	}
}

// TestMemoryUnderHostileGuests has guests send what they can to a runner in a process
// of its own, and looks how much that takes at the most.
func TestMemoryUnderHostileGuests(t *testing.T) {
	heavytest.Mark(t)
	raw := func(header func(i uint32) []byte) func(*yamux.Session, net.Conn) {
		return func(_ *yamux.Session, pipe net.Conn) {
			for i := uint32(0); i < 300_000; i++ {
				if _, err := pipe.Write(header(i)); err != nil {
					return
				}
			}
		}
	}
	attacks := []struct {
		name  string
		bound int64
		do    func(session *yamux.Session, pipe net.Conn)
	}{
		{"streams", 64 << 20, raw(func(i uint32) []byte { return muxHeader(0, muxWindowUpdate, muxSYN, 2*i+100, 0) })},
		{"streams opened and ended", 64 << 20, raw(func(i uint32) []byte { return muxHeader(0, muxWindowUpdate, muxSYN|muxFIN, 2*i+100, 0) })},
		{"pings", 64 << 20, raw(func(i uint32) []byte { return muxHeader(0, muxPing, muxSYN, 0, i) })},
		{"answers to pings", 64 << 20, raw(func(i uint32) []byte { return muxHeader(0, muxPing, 2, 0, i) })},
		{"windows", 64 << 20, raw(func(i uint32) []byte { return muxHeader(0, muxWindowUpdate, 0, 1, 1<<31) })},
		{"connections whose windows are full", 192 << 20, func(session *yamux.Session, _ net.Conn) {
			for range maxInbound {
				stream, err := session.Open()
				if err != nil {
					return
				}
				if linkOf(stream).writeJSON(kindRequest, request{Verb: "conn", Accept: 1, Addr: "a"}) != nil {
					return
				}
				_ = stream.SetWriteDeadline(time.Now().Add(5 * time.Second))
				go floodedStream(stream, kindData)
			}
		}},
	}
	for _, attack := range attacks {
		t.Run(attack.name, func(t *testing.T) {
			attackRunner(t, attack.bound, attack.do, kindData)
		})
	}
	for name, k := range map[string]kind{
		"output that nobody reads": kindData, "errors that nobody reads": kindStderr, "replies without an end": kindReply, "text of errors": kindError,
	} {
		t.Run(name, func(t *testing.T) { attackRunner(t, 64<<20, nil, k) })
	}
}

// attackRunner answers the runner's requests and floods each of its streams with messages of
// kind k, while attack runs.
func attackRunner(t *testing.T, bound int64, attack func(*yamux.Session, net.Conn), k kind) {
	v := memtest.Start(t, victimRole)
	pipe, err := net.Dial("tcp", v.Address)
	must(t, err)
	session, err := yamux.Server(pipe, muxConfig(10*time.Second))
	must(t, err)
	t.Cleanup(func() { _ = session.Close() })
	go func() {
		for first := true; ; first = false {
			stream, err := session.Accept()
			if err != nil {
				return
			}
			go answerAndFlood(stream, first, k)
		}
	}()
	time.Sleep(300 * time.Millisecond) // the runner asks for everything meanwhile
	if attack != nil {
		attack(session, pipe)
	}
	time.Sleep(time.Second) // the flood goes on
	use := v.Use()
	t.Logf("peak %d MiB, RSS %d MiB, %d goroutines at the most", use.Peak>>20, use.RSS>>20, use.Most)
	if use.Peak > bound {
		t.Errorf("the runner took %d MiB, more than %d", use.Peak>>20, bound>>20)
	}
	if use.Most > 1000 {
		t.Errorf("the runner had %d goroutines", use.Most)
	}
}

func answerAndFlood(stream net.Conn, hello bool, k kind) {
	l := linkOf(stream)
	if _, _, err := l.message(); err != nil {
		return
	}
	r := reply{PID: 1, Addr: strings.Repeat("a", 100)}
	if hello {
		r.Hello = &Hello{UID: 1000}
	}
	if l.writeJSON(kindReply, r) == nil && !hello {
		floodedStream(stream, k)
	}
}
