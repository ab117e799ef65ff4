package stub_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/model/dialect"
)

// A failure comes once for each conversation, in the provider's own words, and then the
// turn behind it.
func TestFailures(t *testing.T) {
	bodies := map[dialect.Name]string{
		dialect.Chat:      `{"error":{"code":"rate_limit_exceeded","message":"slow down","param":null,"type":"rate_limit_error"}}`,
		dialect.Responses: `{"error":{"code":"rate_limit_exceeded","message":"slow down","param":null,"type":"rate_limit_error"}}`,
		dialect.Messages:  `{"error":{"message":"slow down","type":"rate_limit_error"},"type":"error"}`,
		dialect.Generate:  `{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1.5s"}],"message":"slow down","status":"RESOURCE_EXHAUSTED"}}`,
	}
	handler := script(t, `
turns:
  - fail: {status: 429, retry_after: 1.5, message: slow down}
  - fail: {status: 503}
  - say: At last.
`).Handler()
	for _, name := range dialects {
		for i := range 2 {
			a := &agent{T: t, handler: handler, dialect: name, stream: i == 1}
			a.says(fmt.Sprintf("Hello from %s, %d.", name, i))
			first, second, third, fourth := a.tries(), a.tries(), a.tries(), a.tries()
			if first.status != 429 || first.header.Get("Retry-After") != "1.5" {
				t.Errorf("%s: status %d, header %v", name, first.status, first.header)
			}
			if diff := cmp.Diff(bodies[name], string(first.body)); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			if want := "the script fails this request: Service Unavailable"; second.status != 503 || second.Error != want {
				t.Errorf("%s: status %d: %s", name, second.status, second.body)
			}
			if third.Text != "At last." || fourth.Text != "At last." {
				t.Errorf("%s: in the end it says %s and %s", name, third.body, fourth.body)
			}
		}
	}
}

func TestTroublesAlone(t *testing.T) {
	a := &agent{T: t, handler: script(t, "turns: [{fail: {status: 500}}]").Handler(), dialect: dialect.Chat}
	a.says("Hello.")
	if got := a.tries(); got.status != 500 {
		t.Errorf("status %d", got.status)
	}
	want := "the script has ended: turn 1 has only troubles, and no response after them"
	if got := a.tries(); got.status != 400 || got.Error != want {
		t.Errorf("status %d: %s", got.status, got.Error)
	}
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := script(t, "turns: [{delay: 2s, fail: {status: 500}}, {say: Late., delay: 3s}]").Handler()
		a := &agent{T: t, handler: handler, dialect: dialect.Messages}
		a.says("Hello.")
		for _, want := range []time.Duration{2 * time.Second, 3 * time.Second} {
			start := time.Now()
			a.tries()
			if took := time.Since(start); took != want {
				t.Errorf("took %v, want %v", took, want)
			}
		}
	})
}

// broken asks in name's dialect over TCP and returns all that came and how it ended.
func broken(t *testing.T, address string, name dialect.Name, stream bool) (content []byte, err error) {
	t.Helper()
	path, body := compose(name, []dialect.Item{{Role: dialect.User, Text: "Hello."}}, nil, stream)
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Post(address+path, "application/json", bytes.NewReader(encoded(t, body)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	return io.ReadAll(response.Body)
}

func TestCut(t *testing.T) {
	for cut, want := range map[string]error{"half": io.ErrUnexpectedEOF, "reset": syscall.ECONNRESET} {
		for _, name := range dialects {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/%t", cut, name, stream), func(t *testing.T) {
					server := serve(t, script(t, "turns: [{cut: "+cut+"}, {say: All of this is said in the end.}]").Handler())
					content, err := broken(t, server.URL, name, stream)
					if !errors.Is(err, want) || len(content) == 0 {
						t.Errorf("after %d bytes the answer ends with %v, want %v", len(content), err, want)
					}
					again, err := broken(t, server.URL, name, stream)
					if err != nil || len(again) <= len(content) {
						t.Errorf("asked again: %v, %d bytes after %d", err, len(again), len(content))
					}
				})
			}
		}
	}
}

func serve(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

// A stall begins an answer and holds it, and ends when the agent leaves.
func TestStall(t *testing.T) {
	left := make(chan struct{})
	stub := script(t, "turns: [{stall: 10m}, {say: All of this is said in the end.}]").Handler()
	server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(left)
		stub.ServeHTTP(w, r)
	}))
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	path, body := compose(dialect.Messages, []dialect.Item{{Role: dialect.User, Text: "Hello."}}, nil, true)
	content := encoded(t, body)
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, len(content), content); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for !strings.Contains(got.String(), "said") {
		chunk := make([]byte, 1024)
		n, err := conn.Read(chunk)
		if err != nil {
			t.Fatalf("%v after %s", err, got.String())
		}
		got.Write(chunk[:n])
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	<-left
	if strings.Contains(got.String(), "message_stop") {
		t.Errorf("all of it came: %s", got.String())
	}
}

func TestStallEnds(t *testing.T) {
	server := serve(t, script(t, "turns: [{stall: 10ms}, {say: All of this is said in the end.}]").Handler())
	if _, err := broken(t, server.URL, dialect.Chat, true); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the answer ends with %v", err)
	}
}

func TestUsageAsScripted(t *testing.T) {
	for _, name := range dialects {
		for _, stream := range []bool{false, true} {
			a := &agent{T: t, handler: script(t, "turns: [{say: Hello., usage: {input: 1000, output: 50, cached: 400}}]").Handler(), dialect: name, stream: stream}
			a.says("Hello.")
			want := &dialect.Usage{Input: 1000, Output: 50, Cached: 400}
			if diff := cmp.Diff(want, a.asks().Usage); diff != "" {
				t.Errorf("%s, %t: %s", name, stream, diff)
			}
		}
	}
}
