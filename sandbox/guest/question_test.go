package guest

import (
	"encoding/json"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/yamux"
)

// A guest that was taken over reports questions as fast as the pipe takes them.
func TestQuestionsAreHeardAtABoundedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		var heard atomic.Int64
		done, over := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(over)
			readQuestions(linkOf(near), done, func(Question) { heard.Add(1) })
		}()
		flooded := make(chan struct{})
		go func() {
			defer close(flooded)
			l := linkOf(far)
			for range 100 * questionRate {
				if l.write(kindData, []byte(`{"name":"x.example","type":"A"}`)) != nil {
					return
				}
			}
		}()
		for second := range int64(3) {
			synctest.Wait()
			if most := (second + 1) * questionRate; heard.Load() > most {
				t.Errorf("after %d s %d were heard, more than %d", second, heard.Load(), most)
			}
			time.Sleep(time.Second)
		}
		if heard.Load() <= questionRate {
			t.Errorf("only %d were heard", heard.Load())
		}
		close(done)
		_, _ = near.Close(), far.Close()
		<-over
		<-flooded
	})
}

// A guest's report of a question or a peer is recorded, so one with a long or invalid name ends
// the session as a breach of the protocol.
func TestGuestsThatSayTooMuch(t *testing.T) {
	long := strings.Repeat("x", maxPayload/2)
	connects := func(addr string) func(t *testing.T, l *link, session *yamux.Session) {
		return func(t *testing.T, l *link, session *yamux.Session) {
			_ = l.writeJSON(kindReply, reply{Addr: "here"})
			if stream, err := session.Open(); err == nil {
				_ = linkOf(stream).writeJSON(kindRequest, request{Verb: "conn", Accept: 1, Addr: addr})
			}
		}
	}
	asks := func(q Question) func(t *testing.T, l *link, session *yamux.Session) {
		return func(t *testing.T, l *link, _ *yamux.Session) {
			_ = l.writeJSON(kindReply, reply{})
			p, err := json.Marshal(q)
			must(t, err)
			_ = l.write(kindData, p)
		}
	}
	for name, says := range map[string]func(*testing.T, *link, *yamux.Session){
		"a long name":         asks(Question{Name: long}),
		"a long type":         asks(Question{Name: "x", Type: long}),
		"a long peer":         connects(long),
		"a peer of a zone":    connects("[fe80::1%" + long + "]:80"),
		"a peer with escapes": connects("\x1b[2J127.0.0.1:80"),
	} {
		t.Run(name, func(t *testing.T) {
			g, err := hostile(t, func(session *yamux.Session, _ net.Conn) {
				stream, err := session.Accept()
				if err != nil {
					return
				}
				l := linkOf(stream)
				if _, _, err := l.message(); err == nil {
					says(t, l, session)
				}
			})
			must(t, err)
			if strings.Contains(name, "peer") {
				_, err = g.Listen(t.Context(), "here")
			} else {
				err = g.Resolve(t.Context(), nil, func(q Question) { t.Errorf("told of a name of %d bytes", len(q.Name)) })
			}
			if err == nil {
				within(t, 10*time.Second, "end of the session", func() { <-g.Done() })
				err = g.Err()
			}
			if !errors.Is(err, ErrProtocol) {
				t.Errorf("the session ended with %v, which breaks no rule", err)
			}
		})
	}
}
