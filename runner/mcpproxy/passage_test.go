package mcpproxy

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// upstreamBench is a bench with one server called "s", which speaks HTTP as
// handler does.
func upstreamBench(t testing.TB, limits Limits, timeout time.Duration, handler http.HandlerFunc) *bench {
	t.Helper()
	return newBench(t, limits, Server{Name: "s", Upstream: upstreamOf(t, handler), Timeout: timeout})
}

// upstreamOf is a server in a container, as far as the proxy can tell.
func upstreamOf(t testing.TB, handler http.HandlerFunc) *Upstream {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.SetKeepAlivesEnabled(false)
	server.Start()
	t.Cleanup(server.Close)
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", server.Listener.Addr().String())
		},
		DisableCompression: true, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
	}
	t.Cleanup(transport.CloseIdleConnections)
	where, err := url.Parse("http://localhost:3001/own/mcp")
	if err != nil {
		t.Fatal(err)
	}
	return &Upstream{URL: where, Transport: transport}
}

func TestRequestsPassAsTheyAre(t *testing.T) {
	var got *http.Request
	b := upstreamBench(t, Limits{}, 0, func(w http.ResponseWriter, r *http.Request) {
		got = r.Clone(context.Background())
		w.Header().Set("X-Server", "own")
		w.WriteHeader(http.StatusTeapot)
		w.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
	})
	r := b.do("POST", "s", `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		"Mcp-Session-Id", "of the server", "X-Agent", "a", "Connection", "X-Gone", "X-Gone", "g", "Origin", "http://s", "Accept-Encoding", "gzip")
	if r.status != http.StatusTeapot || r.header.Get("X-Server") != "own" || !strings.Contains(r.body, `"result":{}`) {
		t.Errorf("the agent got %d %v %q", r.status, r.header, r.body)
	}
	h := got.Header
	if got.URL.Path != "/own/mcp" || got.Host != "localhost:3001" || h.Get("Origin") != "http://localhost:3001" ||
		h.Get("X-Agent") != "a" || h.Get("X-Gone") != "" || h.Get("Accept-Encoding") != "identity" || h.Get("Mcp-Session-Id") != "of the server" {
		t.Errorf("the server got %s %s %v", got.Host, got.URL, h)
	}
	if frames := b.rec.all(); len(frames) != 2 || frames[0].Conn != "s/1" || frames[1].Synthetic != "" {
		t.Errorf("frames: %+v", frames)
	}
}
