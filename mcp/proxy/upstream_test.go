package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	mcptransport "github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
	"github.com/waza-isolate/waza/sandbox/process"
)

// remoteOf is a server that the runner dials, with a header of its own.
func remoteOf(t testing.TB, handler http.HandlerFunc) (*transport.Upstream, *httptest.Server) {
	t.Helper()
	server := httptest.NewServer(handler)
	dialer := &http.Transport{DisableCompression: true}
	t.Cleanup(func() {
		dialer.CloseIdleConnections()
		server.CloseClientConnections()
		server.Close()
	})
	where, err := url.Parse(server.URL + "/mcp?key=of+the+url")
	if err != nil {
		t.Fatal(err)
	}
	return &transport.Upstream{URL: where, Transport: dialer, Remote: true, Headers: map[string]string{"Authorization": "Bearer secret"}}, server
}

func TestHeadersOfARemoteServer(t *testing.T) {
	t.Parallel()
	var got *http.Request
	up, _ := remoteOf(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Clone(context.Background())
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Strict-Transport-Security", "max-age=1")
		w.Header().Set("Alt-Svc", "h3")
		w.Header().Set("Www-Authenticate", "Bearer")
		w.Header().Set("X-Server", "own")
		rpc(w, r, "{}")
	})
	b := newBench(t, limits{}, proxy.Server{Server: transport.Server{Name: "s", Upstream: up}})
	response := b.request(t.Context(), "POST", "s", ping, "Authorization", "Bearer agent", "Cookie", "c=d", "X-Agent", "a")
	response.Body.Close()
	if got.Header.Get("Authorization") != "Bearer secret" || got.Header.Get("Cookie") != "" || got.Header.Get("X-Agent") != "a" || got.URL.RawQuery != "key=of+the+url" {
		t.Errorf("the server got %s %v", got.URL, got.Header)
	}
	for _, name := range proxy.RemoteOnly() {
		if response.Header.Get(name) != "" {
			t.Errorf("the agent got %s", name)
		}
	}
	if response.Header.Get("X-Server") != "own" {
		t.Error("the agent lost a header")
	}
	up.Headers = nil
	b.request(t.Context(), "POST", "s", ping, "Authorization", "Bearer agent", "Cookie", "c=d").Body.Close()
	if got.Header.Get("Authorization") != "Bearer agent" || got.Header.Get("Cookie") != "c=d" {
		t.Errorf("without headers the server got %v", got.Header)
	}
}

// TestRedirects checks that another origin sees nothing at all.
func TestRedirects(t *testing.T) {
	t.Parallel()
	var strangers atomic.Int32
	stranger := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strangers.Add(1) }))
	defer stranger.Close()
	var hops atomic.Int32
	up, own := remoteOf(t, func(w http.ResponseWriter, r *http.Request) {
		hops.Add(1)
		var status int
		fmt.Sscanf(r.Header.Get("X-Status"), "%d", &status)
		switch where := r.Header.Get("X-Where"); {
		case where == "loop" || r.URL.Path == "/mcp" && where != "":
			if where == "loop" {
				where = "/mcp"
			}
			w.Header().Set("Location", where)
			w.WriteHeader(status)
		default:
			w.Header().Set("X-Method", r.Method+" "+r.Header.Get("Authorization"))
			rpc(w, r, "{}")
		}
	})
	b := newBench(t, limits{}, proxy.Server{Server: transport.Server{Name: "s", Upstream: up}})
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, test := range []struct {
		method        string
		status        int
		where         string
		want          int
		says, method2 string
	}{
		{"POST", 307, "/there", 200, "result", "POST Bearer secret"},
		{"POST", 308, own.URL + "/there", 200, "result", "POST Bearer secret"},
		{"GET", 302, "/there", 202, "", "GET Bearer secret"},
		{"POST", 302, "/there", 302, "", ""},
		{"POST", 307, "loop", 502, "more than 5", ""},
		{"POST", 307, stranger.URL + "/there", 502, own.URL + " redirects to another origin, " + stranger.URL, ""},
		{"POST", 303, stranger.URL + "/there", 502, "another origin", ""},
		{"GET", 301, stranger.URL + "/there", 502, "another origin", ""},
		{"POST", 307, "//" + stranger.Listener.Addr().String() + "/", 502, "another origin", ""},
		{"POST", 307, "https://" + own.Listener.Addr().String() + "/", 502, "another origin", ""},
		{"POST", 307, "http://%zz", 502, "is invalid", ""},
		{"POST", 304, stranger.URL, 304, "", ""},
	} {
		body := ""
		if test.method == "POST" {
			body = ping
		}
		r := b.do(test.method, "s", body, "X-Status", fmt.Sprint(test.status), "X-Where", test.where)
		if r.status != test.want || !strings.Contains(r.body, test.says) || r.header.Get("X-Method") != test.method2 {
			t.Errorf("%s %d to %s: %d %q %v", test.method, test.status, test.where, r.status, r.body, r.header)
		}
	}
	if n := strangers.Load(); n > 0 {
		t.Errorf("the other origin was asked %d times", n)
	}
	b.rec.event(t, "redirect")
}

// In a container every name of the loopback is the server's own.
func TestRedirectWithinAContainer(t *testing.T) {
	t.Parallel()
	b := upstreamBench(t, limits{}, 0, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/own/mcp" {
			w.Header().Set("Location", "http://127.0.0.1:3001/own/mcp/")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		}
		rpc(w, r, `{"path":"`+r.URL.Path+`"}`)
	})
	if r := b.do("POST", "s", ping); !strings.Contains(r.body, "/own/mcp/") {
		t.Errorf("got %d %s", r.status, r.body)
	}
}

func TestProbeOverHTTP(t *testing.T) {
	t.Parallel()
	var deleted atomic.Int32
	answer := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			deleted.Add(1)
			return
		}
		raw := readAll(r.Body)
		sent, err := parse(raw)
		if err != nil || !asks(sent) {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Mcp-Session-Id", "probe")
		result := `{"protocolVersion":"2025-06-18","serverInfo":{"name":"n","version":"1"}}`
		switch {
		case sent[0].Method == "tools/list" && strings.Contains(string(raw), `"cursor":"2"`):
			result = `{"tools":[{"name":"two"}]}`
		case sent[0].Method == "tools/list":
			result = `{"tools":[{"name":"one"}],"nextCursor":"2"}`
		}
		written(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n", fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", sent[0].ID.Raw, result))
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(code) }
	}
	var tries atomic.Int32
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		tools   []string
		class   error
		says    string
	}{
		"answers":       {answer, nil, nil, ""},
		"has its tools": {answer, []string{"two", "one"}, nil, ""},
		"lacks a tool":  {answer, []string{"one", "tow"}, client.ErrTools, `lacks tools that the agent is to see: mcp_servers.s.tools names "tow"; the server has "one", "two"`},
		"unauthorized":  {status(401), nil, client.ErrUnauthorized, `MCP server "s" requires authorization: HTTP 401; set headers.Authorization of mcp_servers.s, such as "Bearer ${TOKEN}"`},
		"forbidden":     {status(403), nil, client.ErrUnauthorized, "HTTP 403; the headers of mcp_servers.s are not accepted; check their values"},
		"another path":  {status(404), nil, client.ErrRefused, "HTTP 404 Not Found without an answer; is /mcp the path of its endpoint?"},
		"another origin": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://h.example/", http.StatusTemporaryRedirect)
		}, nil, client.ErrRefused, "another origin, http://h.example"},
		"encodes": {func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Encoding", "br"); answer(w, r) }, nil, client.ErrRefused, "Content-Encoding"},
		"starts slowly": {func(w http.ResponseWriter, r *http.Request) {
			if tries.Add(1) < 4 {
				w.WriteHeader(503)
				return
			}
			answer(w, r)
		}, nil, nil, ""},
		"never answers": {func(w http.ResponseWriter, r *http.Request) { readAll(r.Body); <-r.Context().Done() }, nil, client.ErrNoAnswer, "startup_timeout is 1s"},
		"endless stream": {func(w http.ResponseWriter, r *http.Request) {
			readAll(r.Body)
			for r.Context().Err() == nil {
				written(w, "data: x\n\n")
				time.Sleep(time.Millisecond)
			}
		}, nil, client.ErrNoAnswer, "startup_timeout is 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up, _ := remoteOf(t, test.handler)
			if name == "unauthorized" {
				up.Headers = nil
			}
			start := 20 * time.Second
			if test.class == client.ErrNoAnswer {
				start = time.Second
			}
			info, _, err := client.Probe(t.Context(), newRecorder(), owned(t, newRecorder(), transport.Server{Name: "s", Upstream: up, Start: start}), test.tools, false)
			if test.class == nil {
				if err != nil || info.Name != "n" || info.Protocol != "2025-06-18" {
					t.Errorf("%+v, %v", info, err)
				}
				return
			}
			if !errors.Is(err, test.class) || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "of+the+url") {
				t.Errorf("%v", err)
			}
		})
	}
	t.Cleanup(func() {
		if deleted.Load() < 4 {
			t.Errorf("%d sessions were ended", deleted.Load())
		}
	})
}

// A tool that the server lacks is told for stdio too.
func TestProbeForToolsOverStdio(t *testing.T) {
	t.Parallel()
	_, _, err := client.Probe(t.Context(), newRecorder(), owned(t, newRecorder(), transport.Server{Name: "s", Launch: launching(t, "mcpgo")}), []string{"echo", "ecko"}, false)
	if !errors.Is(err, client.ErrTools) || !strings.Contains(err.Error(), `names "ecko"; the server has "count", "echo"`) {
		t.Errorf("%v", err)
	}
	if _, _, err := client.Probe(t.Context(), newRecorder(), owned(t, newRecorder(), transport.Server{Name: "s", Launch: launching(t, "mcpgo")}), []string{"echo"}, false); err != nil {
		t.Error(err)
	}
}

// A program that ends before it answers is told with its last words.
func TestResidentThatEnds(t *testing.T) {
	t.Parallel()
	rec := newRecorder()
	r, err := transport.StartResident(t.Context(), rec, transport.Server{Name: "s", Launch: launching(t, "broken")})
	if err != nil {
		t.Fatal(err)
	}
	where, _ := url.Parse("http://localhost:1/mcp")
	up := &transport.Upstream{URL: where, Process: r, Transport: &http.Transport{}}
	_, _, err = client.Probe(t.Context(), rec, owned(t, rec, transport.Server{Name: "s", Upstream: up}), nil, false)
	var failed *client.Error
	if !errors.As(err, &failed) || failed.Class != client.ErrExited || failed.Exit == nil || failed.Exit.Code != 7 || !strings.Contains(err.Error(), "cannot open database") {
		t.Errorf("%v", err)
	}
	if e := rec.event(t, "server_exit"); e.Data["asked"] != false {
		t.Errorf("%+v", e)
	}
}

func TestResidentIsStopped(t *testing.T) {
	t.Parallel()
	rec := newRecorder()
	r, err := transport.StartResident(t.Context(), rec, transport.Server{Name: "s", Launch: func(ctx context.Context) (process.Process, error) { return launching(t, "deaf")(ctx) }})
	if err != nil {
		t.Fatal(err)
	}
	r.Stop(t.Context())
	<-r.Gone()
	if e := rec.event(t, "server_exit"); e.Data["asked"] != true {
		t.Errorf("%+v", e)
	}
}

// realServer is mcp-go's, with a tool that reports progress and one that asks its
// client.
func realServer() *mcpserver.MCPServer {
	s := mcpserver.NewMCPServer("inventory", "1", mcpserver.WithToolCapabilities(true), mcpserver.WithElicitation())
	s.EnableSampling()
	s.AddTool(mcp.NewTool("echo", mcp.WithString("text")), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(r.GetString("text", "")), nil
	})
	s.AddTool(mcp.NewTool("sample"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		//lint:ignore SA1019 sessions up to 2025-11-25 have it, and servers use it
		result, err := mcpserver.ServerFromContext(ctx).RequestSampling(ctx, mcp.CreateMessageRequest{CreateMessageParams: mcp.CreateMessageParams{
			Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent("say")}}, MaxTokens: 5,
		}})
		if err != nil {
			return mcp.NewToolResultError(err.Error()), nil
		}
		return mcp.NewToolResultText("model " + result.Model), nil
	})
	return s
}

// TestRealServersOverHTTP has mcp-go's client talk to mcp-go's servers through the
// proxy, over both transports.
func TestRealServersOverHTTP(t *testing.T) {
	t.Parallel()
	streamable := mcpserver.NewStreamableHTTPServer(realServer())
	events := mcpserver.NewSSEServer(realServer())
	for name, test := range map[string]struct {
		handler http.Handler
		path    string
		events  bool
	}{"streamable": {streamable, "/mcp", false}, "events": {events, "/sse", true}} {
		t.Run(name, func(t *testing.T) {
			up, _ := remoteOf(t, test.handler.ServeHTTP)
			up.URL.Path, up.URL.RawQuery, up.Events = test.path, "", test.events
			server := proxy.Server{Server: transport.Server{Name: "s", Upstream: up}, Tools: []string{"echo", "sample"}}
			if _, _, err := client.Probe(t.Context(), newRecorder(), owned(t, newRecorder(), server.Server), server.Tools, false); err != nil {
				t.Fatal(err)
			}
			b := newBench(t, quick(), server)
			//lint:ignore SA1019 it is how sessions get what belongs to no request
			c := connect(t, b, "s", "2025-11-25", mcptransport.WithContinuousListening())
			if got := callTool(t, c, "echo", map[string]any{"text": "hello"}); got != "hello" {
				t.Errorf("echo: %q", got)
			}
			if got := callTool(t, c, "sample", nil); got != "model tiny" && !test.events { // mcp-go's has no sampling over events
				t.Errorf("sample: %q", got)
			}
			result, err := capture.Calls(b.rec.sequence())
			if err != nil || len(result.Calls) != 2 || len(result.Gaps) > 0 || result.Calls[0].Outcome != evidence.OutcomeOK {
				t.Errorf("%+v %v", result, err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// If nothing listens on the address, the message says what to check.
func TestProbeWhereNobodyListens(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.2:0") // other tests, which are given ports at 127.0.0.1, do not take it
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().(*net.TCPAddr)
	_ = ln.Close()
	target := &url.URL{Scheme: "http", Host: address.String(), Path: "/mcp"}
	for name, test := range map[string]struct {
		remote bool
		class  error
		says   string
	}{
		"remote":           {true, client.ErrUnreachable, "connection refused; check its url"},
		"in its container": {false, client.ErrNoAnswer, fmt.Sprintf("check that it listens on port %d", address.Port)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dialer := &http.Transport{DisableKeepAlives: true}
			up := &transport.Upstream{URL: target, Transport: dialer, Remote: test.remote}
			_, _, err := client.Probe(t.Context(), newRecorder(), owned(t, newRecorder(), transport.Server{Name: "s", Upstream: up, Start: 4 * time.Second}), nil, false)
			if !errors.Is(err, test.class) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v", err)
			}
		})
	}
}
