package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
)

// TestResponsesThatAnswerNothing checks the agent's response and the record for each way in
// which a server can fail to respond.
func TestResponsesThatAnswerNothing(t *testing.T) {
	t.Parallel()
	big := `{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", 2<<20) + `"}`
	hijack := func(w http.ResponseWriter, text string) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			io.WriteString(conn, text)
			conn.Close()
		}
	}
	tests := map[string]struct {
		handler   http.HandlerFunc
		status    int
		synthetic evidence.Synthetic
		says      string // in the synthetic frame
		agent     string // in what the agent gets
		event     string // of this kind
	}{
		"status": {func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no such thing", 404) },
			404, "transport_error", "HTTP 404 Not Found without an answer: no such thing", "no such thing", ""},
		"unauthorized": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401) },
			401, "transport_error", "HTTP 401", "", "unauthorized"},
		"error for nobody": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(400)
			io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}`)
		}, 400, "transport_error", "HTTP 400", "no session", ""},
		"accepted": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(202) }, 202, "transport_error", "HTTP 202", "", ""},
		"HTML": {func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<html>") },
			200, "transport_error", "HTTP 200", "<html>", "gap"},
		"another id": {func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, `{"jsonrpc":"2.0","id":2,"result":{}}`)
		},
			200, "transport_error", "HTTP 200", `"id":2`, ""},
		"gzip": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			rpc(w, r, "{}")
		}, 502, "transport_error", "Content-Encoding", "Content-Encoding", "gap"},
		"gzip stream": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			written(w, "data: {}\n\n")
		}, 502, "transport_error", "Content-Encoding", "Content-Encoding", "gap"},
		"nothing": {func(w http.ResponseWriter, r *http.Request) { hijack(w, "") },
			502, "transport_error", "EOF", "-32000", "upstream"},
		"cut body": {func(w http.ResponseWriter, r *http.Request) {
			hijack(w, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"jsonrpc\"")
		}, 502, "transport_error", "EOF", "-32000", "upstream"},
		"endless headers": {func(w http.ResponseWriter, r *http.Request) {
			hijack(w, "HTTP/1.1 200 OK\r\n"+strings.Repeat("X-A: b\r\n", 100000))
		}, 502, "transport_error", "", "-32000", "upstream"},
		"no HTTP": {func(w http.ResponseWriter, r *http.Request) { hijack(w, "hello\r\n\r\n") },
			502, "transport_error", "", "-32000", "upstream"},
		"over the limit": {func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, big) },
			502, "transport_error", "over the limit", "over the limit", "limit"},
		"never": {func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body); <-r.Context().Done() },
			504, "timeout", "no answer in time", "-32001", ""},
		"stream that ends": {func(w http.ResponseWriter, r *http.Request) { written(w, ": hello\n\n") },
			200, "transport_error", "ended without an answer", ": hello\n\n", ""},
		"stream cut in an event": {func(w http.ResponseWriter, r *http.Request) {
			written(w, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n")
		},
			200, "transport_error", "ended without an answer", "", "undelivered"},
		"stream over the limit": {func(w http.ResponseWriter, r *http.Request) { written(w, "data: "+big+"\n\n") },
			200, "transport_error", "over the limit", "over the limit", "limit"},
		"event without end": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				written(w, "data: x\n")
			}
		}, 200, "transport_error", "over the limit", "over the limit", "limit"},
		"stream that stays": {func(w http.ResponseWriter, r *http.Request) { written(w, ": hello\n\n"); <-r.Context().Done() },
			200, "timeout", "no answer in time", "-32001", ""},
		"event that is no message": {func(w http.ResponseWriter, r *http.Request) { written(w, "data: hello\n\n") },
			200, "transport_error", "ended without an answer", "data: hello\n\n", "gap"},
		"message in another event": {func(w http.ResponseWriter, r *http.Request) {
			written(w, "event: other\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n")
		}, 200, "transport_error", "ended without an answer", "event: other\n", "gap"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := 10 * time.Second
			if test.synthetic == evidence.SyntheticTimeout {
				timeout = 300 * time.Millisecond
			}
			b := upstreamBench(t, limits{message: 1 << 20}, timeout, test.handler)
			r := b.do("POST", "s", ping)
			if r.status != test.status || !strings.Contains(r.raw, test.agent) {
				t.Errorf("the agent got %d %.300q", r.status, r.raw)
			}
			if !hasFrame(evidence.ToClient, test.synthetic, test.says)(b.rec.all(), nil) || !hasFrame(evidence.ToClient, test.synthetic, `"id":1,`)(b.rec.all(), nil) {
				t.Errorf("frames: %s", framesText(b.rec.all()))
			}
			if test.event != "" {
				b.rec.event(t, test.event)
			}
			result, err := capture.Calls(b.rec.sequence())
			if err != nil || len(result.Gaps) > 0 {
				t.Errorf("error %v, gaps %v", err, result.Gaps)
			}
		})
	}
}

func framesText(frames []evidence.Frame) string {
	var b strings.Builder
	for _, f := range frames {
		fmt.Fprintf(&b, "%s %s %s %.200s\n", f.Conn, f.Dir, f.Synthetic, f.Raw)
	}
	return b.String()
}

func TestServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	up := upstreamOf(t, nil)
	up.Transport = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("secret.example: connection refused")
	}}
	for _, remote := range []bool{false, true} {
		up.Remote = remote
		b := newBench(t, limits{}, proxy.Server{Server: transport.Server{Name: "s", Upstream: up}})
		r := b.do("POST", "s", ping)
		if r.status != 502 || !strings.Contains(r.raw, `"id":1,"error":{"code":-32000`) || remote == strings.Contains(r.raw, "secret.example") {
			t.Errorf("the agent got %d %s", r.status, r.raw)
		}
		if e := b.rec.event(t, "upstream"); !strings.Contains(e.Message, "connection refused") {
			t.Errorf("event %+v", e)
		}
		if r := b.do("GET", "s", ""); r.status != 502 {
			t.Errorf("GET: %d", r.status)
		}
	}
}
