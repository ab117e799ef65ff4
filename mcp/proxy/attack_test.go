package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
)

// held is how much memory f leaves behind in what it returns.
func held(f func() any) int64 {
	use := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	before := use()
	kept := f()
	after := use()
	runtime.KeepAlive(kept)
	return after - before
}

// An agent that leaves its requests again and again, under one id, large, and with a
// name as long as the message.
func TestForgottenRequestsAreBounded(t *testing.T) {
	b := upstreamBench(t, limits{}, 0, func(http.ResponseWriter, *http.Request) {})
	name := strings.Repeat("n", 2<<10)
	leave := func(times int) {
		for i := range times {
			raw := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s"}}`, i%3, name)
			if err := b.proxy.Leave("s", "", raw); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := held(func() any { leave(2 * proxy.MaxKept); return b.proxy }); n > 2<<20 {
		t.Errorf("%d bytes are kept", n)
	}
	if n := b.proxy.Kept("s"); n != proxy.MaxKept {
		t.Errorf("%d requests are kept", n)
	}
}

// What a session kept is given back with it.
func TestForgottenRequestsGoWithTheirSession(t *testing.T) {
	b := upstreamBench(t, limits{}, 0, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodDelete:
		case r.Header.Get("Mcp-Session-Id") == "":
			w.Header().Set("Mcp-Session-Id", "one")
			rpc(w, r, `{}`)
		default:
			written(w, "id: 1\ndata:\n\n")
		}
	})
	b.do("POST", "s", initialize)
	b.do("POST", "s", ping, "Mcp-Session-Id", "one")
	b.do("POST", "s", ping, "Mcp-Session-Id", "one")
	if n := b.proxy.Kept("s"); n != 2 {
		t.Fatalf("%d requests are kept", n)
	}
	b.do("DELETE", "s", "", "Mcp-Session-Id", "one")
	if n := b.proxy.Kept("s"); n != 0 {
		t.Errorf("%d requests are kept", n)
	}
}

// On stdio a request that its agent left is kept until it is answered; its message
// is not.
func TestExchangesKeepNoMessage(t *testing.T) {
	b := scriptedBench(t, limits{}, 0)
	long := strings.Repeat("n", 16<<10)
	n := held(func() any {
		var all []any
		for i := range 64 {
			one, err := b.proxy.Unanswered("s", fmt.Appendf(nil,
				`{"jsonrpc":"2.0","id":"%d","method":"tools/call","params":{"name":"%s","_meta":{"progressToken":"t","%s":"%s"}}}`, i, long, metaVersion, long))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, one)
		}
		return all
	})
	if n > 512<<10 {
		t.Errorf("%d bytes are kept", n)
	}
}

// A server that answers TRACE as the standard has it, with the request as it came,
// would hand the agent the runner's secrets.
func TestAgentCannotTrace(t *testing.T) {
	up, _ := remoteOf(t, func(w http.ResponseWriter, r *http.Request) { _ = r.Header.Write(w) })
	b := newBench(t, limits{}, proxy.Server{Server: transport.Server{Name: "s", Upstream: up}})
	for _, method := range []string{"TRACE", "trace", "TRACK", "DEBUG", "PROPFIND"} {
		if r := b.do(method, "s", ""); r.status != http.StatusMethodNotAllowed || strings.Contains(r.raw, "secret") {
			t.Errorf("%s: %d %q", method, r.status, r.raw)
		}
	}
}

// Nothing but the endpoint's path is there, in whatever form it is asked for.
func TestAgentCannotLeaveTheEndpoint(t *testing.T) {
	up, _ := remoteOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/mcp" || !strings.HasPrefix(r.URL.RawQuery, "key=of+the+url") || r.Header.Get("Upgrade") != "" {
			t.Errorf("the server got %s %s %v", r.Method, r.URL, r.Header)
		}
		rpc(w, r, "{}")
	})
	b := newBench(t, limits{}, proxy.Server{Server: transport.Server{Name: "s", Upstream: up}})
	for _, line := range []string{
		"GET /mcp/../admin", "GET /mcp/", "GET //mcp", "GET /mcp/..%2fadmin", "GET /mcp;a=b", "GET http://s/admin", "GET http://127.0.0.1:1/admin",
		"CONNECT 127.0.0.1:1", "CONNECT /mcp", "OPTIONS *", "GET /mcp?a=b#/admin", "GET /mcp%00", "GET /mcp?a=%0d%0aX-Injected:%20y", `GET \\127.0.0.1\mcp`,
	} {
		conn, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: s\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n", line)
		answer, _ := io.ReadAll(conn)
		conn.Close()
		if bytes.Contains(answer, []byte(" 101 ")) {
			t.Errorf("%s: %s", line, answer)
		}
	}
}

// A redirect that is forwarded to the agent does not reveal the URL.
func TestRedirectKeepsTheSecretOfTheURL(t *testing.T) {
	up, _ := remoteOf(t, func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Location", "Content-Location"} {
			w.Header().Set(name, "/mcp/?"+r.URL.RawQuery)
		}
		w.Header().Set("Refresh", "0; url=/mcp/?"+r.URL.RawQuery)
		w.WriteHeader(http.StatusFound)
	})
	b := newBench(t, limits{}, proxy.Server{Server: transport.Server{Name: "s", Upstream: up}})
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if r := b.do("POST", "s", ping); r.status != http.StatusFound || strings.Contains(fmt.Sprint(r.header, r.raw), "of+the+url") {
		t.Errorf("the agent got %d %v %q", r.status, r.header, r.raw)
	}
}

// A server that replays events may resend a list of tools when a stream is resumed. Tools
// are hidden from it too.
func TestHiddenToolsInAReplay(t *testing.T) {
	const list = "id: 2\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":" + toolsResult + "}\n\n"
	b := newBench(t, limits{}, proxy.Server{Server: transport.Server{Name: "s", Upstream: upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Mcp-Session-Id") == "":
			w.Header().Set("Mcp-Session-Id", "one")
			rpc(w, r, `{"protocolVersion":"2025-11-25"}`)
		case r.Method == http.MethodPost:
			written(w, "id: 1\ndata:\n\n", list)
		default:
			written(w, list)
		}
	})}, Tools: []string{"open"}})
	b.do("POST", "s", initialize)
	for _, r := range []reply{
		b.do("POST", "s", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Mcp-Session-Id", "one"),
		b.do("GET", "s", "", "Mcp-Session-Id", "one", "Last-Event-Id", "1"),
		b.do("GET", "s", "", "Last-Event-Id", "1", "Mcp-Session-Id", "one "),
	} {
		if !strings.Contains(r.raw, `"open"`) || strings.Contains(r.raw, "hidden") {
			t.Errorf("the agent got %q", r.raw)
		}
	}
}

// A header that names a hidden tool is a call of it to a server that goes by headers.
func TestHiddenToolInAHeader(t *testing.T) {
	b := newBench(t, limits{}, proxy.Server{Server: transport.Server{Name: "s", Upstream: upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		rpc(w, r, fmt.Sprintf(`{"server":%q}`, r.Header.Get("Mcp-Name")))
	})}, Tools: []string{"open", "öffne"}})
	call, list := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"open"}}`, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for _, test := range []struct {
		body, method, name string
		reaches            bool
	}{
		{call, "tools/call", "open", true},
		{call, "tools/call", "=?base64?w7ZmZm5l?=", true},
		{list, "tools/list", "hidden", true},
		{call, "tools/call", "hidden", false},
		{call, "tools/list", "hidden", false},
		{list, "tools/call", "hidden", false},
		{call, "tools/call", "=?base64?aGlkZGVu?=", false},
		{call, "tools/call", "=?base64?!?=", false},
	} {
		r := b.do("POST", "s", test.body, "Mcp-Method", test.method, "Mcp-Name", test.name)
		if reached := strings.Contains(r.raw, `"server"`); reached != test.reaches {
			t.Errorf("%+v: %d %s", test, r.status, r.raw)
		}
	}
}

// A status that no response can have is the server's failure, and the agent is told.
func TestOddStatus(t *testing.T) {
	for _, status := range []string{"000", "007", "099", "101"} {
		for _, kind := range []string{"application/json", "text/event-stream"} {
			b := newBench(t, limits{}, proxy.Server{Server: transport.Server{Name: "s", Upstream: upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				fmt.Fprintf(conn, "HTTP/1.1 %s Odd\r\nContent-Type: %s\r\nConnection: Upgrade\r\nUpgrade: x\r\nContent-Length: 0\r\n\r\n", status, kind)
			})}})
			if r := b.do("POST", "s", ping); r.status != http.StatusBadGateway || !strings.Contains(r.body, proxy.ErrStatus.Error()) {
				t.Errorf("%s %s: %d %q", status, kind, r.status, r.raw)
			}
		}
	}
}
