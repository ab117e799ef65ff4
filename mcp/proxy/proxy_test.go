package proxy_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
)

// bench is a proxy on a real listener and a client that reaches it under any
// name.
type bench struct {
	t      testing.TB
	rec    *memoryRecorder
	proxy  *proxy.Proxy
	addr   string
	client *http.Client
	stderr *lockedBuffer
}

// quick limits end soon what does not end by itself. No silence comes into a test,
// however slow the machine.
func quick() limits { return unhurried(limits{grace: 300 * time.Millisecond}) }

// limits are those of a proxy, and of each of its servers that has none.
type limits struct {
	proxy.Limits
	message, frames, traffic int64
	grace                    time.Duration
}

// of returns a server within the limits.
func (l limits) of(s proxy.Server) proxy.Server {
	s.Message, s.Frames = cmp.Or(s.Message, l.message), cmp.Or(s.Frames, l.frames)
	s.Traffic, s.Grace = cmp.Or(s.Traffic, l.traffic), cmp.Or(s.Grace, l.grace)
	return s
}

// unhurried fills in times that a test does not reach.
func unhurried(l limits) limits {
	l.Idle, l.Write, l.Body = cmp.Or(l.Idle, time.Hour), cmp.Or(l.Write, time.Hour), cmp.Or(l.Body, time.Hour)
	return l
}

func newBench(t testing.TB, within limits, servers ...proxy.Server) *bench {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	return benchOn(t, listener, func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}, unhurried(within), servers...)
}

// benchOn is a bench whose proxy serves what listener takes, which dial connects to.
func benchOn(t testing.TB, listener net.Listener, dial func(context.Context) (net.Conn, error), within limits, servers ...proxy.Server) *bench {
	t.Helper()
	b := &bench{t: t, rec: newRecorder(), stderr: &lockedBuffer{}}
	for i := range servers {
		servers[i] = within.of(servers[i])
		if servers[i].Stderr == nil {
			servers[i].Stderr = b.stderr
		}
	}
	made := proxy.New(b.rec, within.Limits, servers...)
	b.proxy = made
	b.addr = listener.Addr().String()
	served := make(chan error, 1)
	go func() { served <- made.Serve(context.Background(), listener, made.Handler("")) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dial(ctx)
	}}
	b.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := made.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		transport.CloseIdleConnections()
	})
	return b
}

// scriptedBench is a bench with one scripted server called "s".
func scriptedBench(t testing.TB, within limits, timeout time.Duration) *bench {
	t.Helper()
	return newBench(t, within, proxy.Server{Server: transport.Server{Name: "s", Launch: launching(t, "scripted"), Timeout: timeout}})
}

// lockedBuffer takes a server's stderr.
type lockedBuffer struct {
	mu     sync.Mutex
	buf    bytes.Buffer  // guarded by mu
	change chan struct{} // closed by the next write, if anybody waits; guarded by mu
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.change != nil {
		close(b.change)
		b.change = nil
	}
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// wait returns when text was written.
func (b *lockedBuffer) wait(t testing.TB, text string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		b.mu.Lock()
		if strings.Contains(b.buf.String(), text) {
			b.mu.Unlock()
			return
		}
		if b.change == nil {
			b.change = make(chan struct{})
		}
		change := b.change
		b.mu.Unlock()
		select {
		case <-change:
		case <-deadline:
			t.Fatalf("never written: %s", text)
		}
	}
}

// reply is a whole HTTP response. Where it is a stream of one event, body is that
// event's data.
type reply struct {
	status int
	header http.Header
	body   string
	raw    string // the body as it came
}

// events are the data of a reply that is a stream, of those that have any.
func (r reply) events() []string {
	var found []string
	for block := range strings.SplitSeq(r.body, "\n\n") {
		var data []string
		for line := range strings.SplitSeq(block, "\n") {
			if rest, ok := strings.CutPrefix(line, "data: "); ok {
				data = append(data, rest)
			}
		}
		if all := strings.Join(data, "\n"); all != "" {
			found = append(found, all)
		}
	}
	return found
}

func (b *bench) request(ctx context.Context, method, host, body string, header ...string) *http.Response {
	b.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+host+"/mcp", strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	return response
}

func (b *bench) do(method, host, body string, header ...string) reply {
	b.t.Helper()
	response := b.request(b.t.Context(), method, host, body, header...)
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	r := reply{status: response.StatusCode, header: response.Header, body: string(all), raw: string(all)}
	if events := r.events(); len(events) == 1 {
		r.body = events[0]
	}
	return r
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// open starts a session with server "s".
func (b *bench) open() (session string) {
	b.t.Helper()
	r := b.do("POST", "s", initialize)
	session = r.header.Get("Mcp-Session-Id")
	if r.status != 200 || session == "" {
		b.t.Fatalf("initialize: %d %q session %q", r.status, r.body, session)
	}
	return session
}

func (b *bench) post(session, body string) reply {
	b.t.Helper()
	return b.do("POST", "s", body, "Mcp-Session-Id", session)
}

// sseReader reads a stream event by event.
type sseReader struct {
	t    testing.TB
	in   *bufio.Reader
	body io.Closer
}

func (b *bench) stream(ctx context.Context, method, body string, header ...string) *sseReader {
	b.t.Helper()
	response := b.request(ctx, method, "s", body, header...)
	if kind := response.Header.Get("Content-Type"); kind != "text/event-stream" {
		all, _ := io.ReadAll(response.Body)
		b.t.Fatalf("no stream but %d %s %s", response.StatusCode, kind, all)
	}
	b.t.Cleanup(func() { response.Body.Close() })
	return &sseReader{t: b.t, in: bufio.NewReader(response.Body), body: response.Body}
}

// next is the data of the next event, or "" at the end.
func (s *sseReader) next() string {
	s.t.Helper()
	for {
		line, err := s.in.ReadString('\n')
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			return strings.TrimSuffix(data, "\n")
		}
		if err != nil {
			return ""
		}
	}
}

func hasFrame(dir evidence.Direction, synthetic evidence.Synthetic, part string) func([]evidence.Frame, []evidence.Event) bool {
	return func(frames []evidence.Frame, _ []evidence.Event) bool {
		for _, f := range frames {
			if f.Dir == dir && f.Synthetic == synthetic && strings.Contains(string(f.Raw), part) {
				return true
			}
		}
		return false
	}
}
