package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
)

// eventsServer is a scripted server of HTTP+SSE: its methods are those of the
// stdio one.
type eventsServer struct {
	endpoint string // what its endpoint event says

	mu       sync.Mutex
	sessions map[string]*eventsStream // guarded by mu
	opened   atomic.Int32
}

type eventsStream struct {
	mu   sync.Mutex
	own  *scripted
	done chan struct{} // ends the stream
	once sync.Once
}

func (e *eventsServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		e.stream(w, r)
		return
	}
	e.mu.Lock()
	s := e.sessions[r.URL.Query().Get("session")]
	e.mu.Unlock()
	body := readAll(r.Body)
	switch {
	case s == nil, strings.Contains(string(body), `"method":"refused"`):
		http.Error(w, "no", http.StatusNotFound)
		return
	case strings.Contains(string(body), `"method":"hangup"`):
		s.once.Do(func() { close(s.done) })
		return
	}
	w.WriteHeader(http.StatusAccepted)
	s.handle(body)
}

func (s *eventsStream) handle(body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own.handle(body)
}

func (e *eventsServer) stream(w http.ResponseWriter, r *http.Request) {
	id := fmt.Sprint(e.opened.Add(1))
	s := &eventsStream{done: make(chan struct{})}
	s.own = &scripted{out: &lineEvents{w: w}, asked: map[string][]byte{}}
	s.mu.Lock()
	e.mu.Lock()
	e.sessions[id] = s
	e.mu.Unlock()
	written(w, ": welcome\n\n", "event: other\ndata: {}\n\n", "event: endpoint\ndata: "+strings.ReplaceAll(e.endpoint, "ID", id)+"\n\n")
	s.mu.Unlock()
	select {
	case <-s.done:
	case <-r.Context().Done():
	}
	s.mu.Lock() // wait for pending writes
	defer s.mu.Unlock()
}

// lineEvents makes each line that is written to it an event.
type lineEvents struct {
	w    http.ResponseWriter
	line []byte
}

func (l *lineEvents) Write(b []byte) (int, error) {
	if string(b) != "\n" {
		l.line = append(l.line, b...)
		return len(b), nil
	}
	written(l.w, "data: "+string(l.line)+"\n\n")
	l.line = nil
	return len(b), nil
}

func eventsUpstream(t testing.TB, endpoint string) (*transport.Upstream, *eventsServer, *httptest.Server) {
	t.Helper()
	e := &eventsServer{endpoint: endpoint, sessions: map[string]*eventsStream{}}
	up, server := remoteOf(t, e.ServeHTTP)
	up.URL.Path, up.Events = "/sse", true
	return up, e, server
}

func eventsBench(t testing.TB, within limits, timeout time.Duration) (*bench, *eventsServer) {
	t.Helper()
	up, e, _ := eventsUpstream(t, "/message?session=ID")
	return newBench(t, within, proxy.Server{Server: transport.Server{Name: "s", Upstream: up, Timeout: timeout}}), e
}

func TestEventsServer(t *testing.T) {
	t.Parallel()
	b, e := eventsBench(t, quick(), 0)
	one, two := b.open(), b.open()
	if e.opened.Load() != 2 {
		t.Errorf("%d streams for two sessions", e.opened.Load())
	}
	params := `{"n":9007199254740993,"f":1.0,"nbsp":"` + "\u00a0\u2028" + `","u":"\u0041","a":1,"a":2,"x":"` + strings.Repeat("y", 1<<20) + `"}`
	for _, session := range []string{one, two} {
		sent := `{"jsonrpc":"2.0","id":1,"method":"echo","params":` + params + `}`
		want := `{"jsonrpc":"2.0","id":1,"result":` + params + `}`
		if r := b.post(session, sent); r.body != want {
			t.Errorf("the agent got %.300q", r.body)
		}
		if !hasFrame(evidence.ToServer, "", sent)(b.rec.all(), nil) || !hasFrame(evidence.ToClient, "", want)(b.rec.all(), nil) {
			t.Error("the record has other bytes")
		}
	}
	b.do("DELETE", "s", "", "Mcp-Session-Id", one)
	if r := b.post(one, ping); r.status != http.StatusNotFound {
		t.Errorf("after its end a session answers %d", r.status)
	}
}

// A server's request is answered while the POST that led to it still waits.
func TestEventsServerAsks(t *testing.T) {
	t.Parallel()
	b, _ := eventsBench(t, quick(), 0)
	session := b.open()
	stream := b.stream(t.Context(), "POST", `{"jsonrpc":"2.0","id":5,"method":"ask"}`, "Mcp-Session-Id", session)
	if asked := stream.next(); !strings.Contains(asked, "sampling/createMessage") {
		t.Fatalf("asked %q", asked)
	}
	b.post(session, `{"jsonrpc":"2.0","id":77,"result":{"model":"m"}}`)
	if answer := stream.next(); !strings.Contains(answer, `"id":5,"result":{"jsonrpc":"2.0","id":77,"result":{"model":"m"}}`) {
		t.Errorf("answer %q", answer)
	}
}

func TestEventsServerThatFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		method    string
		synthetic evidence.Synthetic
		says      string
	}{
		"refuses the POST": {"refused", evidence.SyntheticTransport, "HTTP 404 Not Found to a message"},
		"hangs up":         {"hangup", evidence.SyntheticTransport, "its event stream ended"},
		"never answers":    {"never", evidence.SyntheticTimeout, "did not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := eventsBench(t, quick(), time.Second)
			session := b.open()
			b.post(session, `{"jsonrpc":"2.0","id":4,"method":"`+test.method+`"}`)
			b.rec.wait(t, test.says, hasFrame(evidence.ToClient, test.synthetic, test.says))
		})
	}
	b, _ := eventsBench(t, limits{grace: quick().grace, message: 1 << 20}, time.Minute)
	b.post(b.open(), `{"jsonrpc":"2.0","id":4,"method":"big","params":{"size":2000000}}`)
	b.rec.wait(t, "a message over the limit", hasFrame(evidence.ToClient, evidence.SyntheticTransport, "over the limit"))
	b.rec.event(t, "limit")
}

// TestEndpointEvents checks that only the stream's own origin is followed.
func TestEndpointEvents(t *testing.T) {
	t.Parallel()
	var strangers atomic.Int32
	stranger := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strangers.Add(1) }))
	defer stranger.Close()
	for name, test := range map[string]struct {
		endpoint string
		ok       bool
	}{
		"a path":            {"/message?session=ID", true},
		"a relative path":   {"message?session=ID", true},
		"its own origin":    {"OWN/message?session=ID", true},
		"another origin":    {stranger.URL + "/message?session=ID", false},
		"without scheme":    {"//" + stranger.Listener.Addr().String() + "/message?session=ID", false},
		"another scheme":    {"file:///etc/passwd", false},
		"no URL":            {"http://%zz", false},
		"a user's disguise": {strings.Replace(stranger.URL, "http://", "http://OWNHOST@", 1) + "/x", false},
	} {
		t.Run(name, func(t *testing.T) {
			up, e, own := eventsUpstream(t, "")
			e.endpoint = strings.ReplaceAll(strings.ReplaceAll(test.endpoint, "OWNHOST", own.Listener.Addr().String()), "OWN", own.URL)
			_, _, err := client.Probe(t.Context(), newRecorder(), owned(t, newRecorder(), transport.Server{Name: "s", Upstream: up, Start: 20 * time.Second}), nil, false)
			if (err == nil) != test.ok || err != nil && !strings.Contains(err.Error(), "endpoint event is not followed") {
				t.Errorf("probe: %v", err)
			}
			b := newBench(t, quick(), proxy.Server{Server: transport.Server{Name: "s", Upstream: up}})
			if r := b.do("POST", "s", initialize); (r.status == 200) != test.ok {
				t.Errorf("the agent got %d %s", r.status, r.body)
			}
			if !test.ok {
				b.rec.event(t, "server_exit")
			}
		})
	}
	if strangers.Load() > 0 {
		t.Error("the other origin was asked")
	}
}

func TestEventsServerThatIsNone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		says    string
	}{
		"unauthorized": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401) }, "requires authorization: HTTP 401"},
		"no stream":    {func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }, "is not an event stream"},
		"no endpoint":  {func(w http.ResponseWriter, r *http.Request) { written(w, "data: {}\n\n") }, "no endpoint event"},
		"silent":       {func(w http.ResponseWriter, r *http.Request) { written(w, ": x\n\n"); <-r.Context().Done() }, "did not"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up, _ := remoteOf(t, test.handler)
			up.Events = true
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			_, _, err := client.Probe(ctx, newRecorder(), owned(t, newRecorder(), transport.Server{Name: "s", Upstream: up, Start: 3 * time.Second}), nil, false)
			if err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "of+the+url") {
				t.Errorf("%v", err)
			}
		})
	}
}
