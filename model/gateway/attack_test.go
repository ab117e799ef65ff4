package gateway

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/heavytest"
)

// raw sends what no client would, and returns the status.
func (s *stand) raw(t *testing.T, request string) int {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// TestAttacksOnTheRoute checks that only paths below a provider's base URL can
// be asked, with its key or without.
func TestAttacksOnTheRoute(t *testing.T) {
	t.Parallel()
	s := over(t, func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s reached %s", r.Method, r.URL, r.Host)
	})
	provider := strings.TrimPrefix(s.provider.URL, "http://")
	for _, target := range []string{
		"http://" + provider + "/base/v1/models", "http://model/p/models", "http://a:b@" + provider + "/p/models",
		"//" + provider + "/p/models", "/p//" + provider, "/p/..", "/p/../x", "/p/a/../../x", "/p/%2e%2e/x", "/p/%2E./x", "/p/.%2e/x",
		"/p/..%2fx", "/p/a%2f..%2f..%2fx", "/p/%5c..%5cx", "/p/..\\x", "/p/%252e%252e/x", "/p/a//b", "/p/.", "/p/", "/p/%00", "/p/a%0d%0aX:1",
		"/p%2fmodels", "/../p/models", "/@" + provider + "/p", "/other/models", "/", "/P/models", "/%70%2e/models",
	} {
		status := s.raw(t, "GET "+target+" HTTP/1.1\r\nHost: model\r\nConnection: close\r\n\r\n")
		if status != http.StatusBadRequest && status != http.StatusNotFound {
			t.Errorf("%s: %d", target, status)
		}
	}
	for _, line := range []string{"CONNECT " + provider, "CONNECT /p/models", "OPTIONS *", "TRACE /p/models", "PUT /p/models", "PATCH /p/models", "PROPFIND /p/models",
		"DELETE /p/models/m", "GET /p/files/f/content", "GET /p/responses/r", "GET /p/x/models", "POST /p/models", "POST /p/files", "POST /p/images/generations", "POST /p/messages/batches", "GET /p"} {
		status := s.raw(t, line+" HTTP/1.1\r\nHost: model\r\nConnection: close\r\n\r\n")
		if status != http.StatusNotFound && status != http.StatusBadRequest && !(strings.HasPrefix(line, "OPTIONS") && status == http.StatusOK) {
			t.Errorf("%s: %d", line, status)
		}
	}
	if calls := s.ended(t); len(calls) > 0 {
		t.Errorf("%d were recorded as calls", len(calls))
	}
	if len(s.kinds()) > maxNotes {
		t.Errorf("%d events", len(s.kinds()))
	}
}

// TestTurnsInOtherLetters checks that a model's turn is one however its path is written.
func TestTurnsInOtherLetters(t *testing.T) {
	t.Parallel()
	s := over(t, say(answered))
	for _, path := range []string{"/p/chat/%63ompletions", "/%70/%63hat/completions", "/p/models/m%3AgenerateContent"} {
		if answer, _, err := s.post(t, path, question); err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %v, %v", path, answer, err)
		}
	}
	for _, c := range s.ended(t) {
		if c.Dialect == "" || c.Model != "m" {
			t.Errorf("%s is no turn of a model: %+v", c.Path, c)
		}
	}
}

// TestAgentThatHolds checks that an agent which does not finish its request, and one that
// takes in no answer, do not hold up the trial's end.
func TestAgentThatHolds(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	s := over(t, func(w http.ResponseWriter, r *http.Request) {
		close(asked)
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<16))
		}
	})
	for _, request := range []string{
		"POST " + chat + " HTTP/1.1\r\nHost: model\r\nContent-Length: 10\r\n\r\n{",
		"POST " + chat + " HTTP/1.1\r\nHost: model\r\nContent-Length: 2\r\n\r\n{}",
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
	}
	<-asked
	closed := make(chan struct{})
	go func() { s.gateway.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(bodyTimeout / 2):
		t.Fatal("the gateway does not close")
	}
}

// TestKeyIsNotEchoed checks that a provider's key reaches no agent and no evidence,
// wherever the provider puts it and however it cuts its answer.
func TestKeyIsNotEchoed(t *testing.T) {
	t.Parallel()
	blank := strings.Repeat("*", len(key))
	tests := map[string]http.HandlerFunc{
		"whole": func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "you sent %v", r.Header) },
		"in a header": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Echo", r.Header.Get("Authorization"))
			w.Header().Set("Content-Type", "text/plain; "+r.Header.Get("Authorization"))
		},
		"in a trailer": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Echo")
			_, _ = io.WriteString(w, "x")
			w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		},
		"in an error": func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "bad key "+r.Header.Get("Authorization"), http.StatusUnauthorized)
		},
		"in a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/?key="+url.QueryEscape(r.Header.Get("Authorization")), http.StatusFound)
		},
		"at the end of half an answer": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, r.Header.Get("Authorization"))
		},
	}
	for name, provider := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := over(t, provider)
			answer, got, _ := s.post(t, chat, question)
			if answer == nil {
				t.Fatal("no answer")
			}
			all := got + fmt.Sprint(answer.Header, answer.Trailer)
			if strings.Contains(all, key) {
				t.Errorf("the agent has the key: %s", all)
			}
			if redirected := answer.StatusCode == http.StatusBadGateway; !redirected && answer.Trailer == nil && !strings.Contains(all, blank) && name != "in a trailer" {
				t.Errorf("nothing is in the key's place: %s", all)
			}
			c := s.only(t)
			line, _ := c.MarshalJSON()
			if strings.Contains(string(line), key) || strings.Contains(fmt.Sprint(s.events, s.gateway.Refused()), key) {
				t.Errorf("the evidence has the key: %s", line)
			}
			if name == "whole" && c.Redacted != 1 {
				t.Errorf("%d were replaced", c.Redacted)
			}
		})
	}
}

// TestKeyInPieces checks the same for a response that comes byte by byte. The provider is
// played in process, where no two of them come together.
func TestKeyInPieces(t *testing.T) {
	t.Parallel()
	s := over(t, nil, func(p *Provider, _ *eval.ModelLimits) {
		p.Transport = InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for _, b := range []byte("data: " + r.Header.Get("Authorization") + "\n\n") {
				_, _ = w.Write([]byte{b})
				_ = http.NewResponseController(w).Flush()
			}
		}))
	})
	_, got, err := s.post(t, chat, question)
	if want := "data: Bearer " + strings.Repeat("*", len(key)) + "\n\n"; err != nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if c := s.only(t); strings.Contains(string(c.Response), key) || c.Redacted != 1 {
		t.Errorf("recorded %q, %d replaced", c.Response, c.Redacted)
	}
}

// TestLengthStays checks that an answer that holds a key keeps its declared length.
func TestLengthStays(t *testing.T) {
	t.Parallel()
	text := `{"key":"` + key + `"}`
	s := over(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		_, _ = io.WriteString(w, text)
	})
	answer, got, err := s.post(t, chat, question)
	if err != nil || answer.ContentLength != int64(len(text)) || len(got) != len(text) || strings.Contains(got, key) {
		t.Errorf("%v, %d, %q", err, answer.ContentLength, got)
	}
}

// TestBounds checks what a request may be.
func TestBounds(t *testing.T) {
	heavytest.Mark(t)
	t.Parallel()
	s := over(t, say(answered))
	answer, _, err := s.post(t, chat, strings.Repeat("x", maxRequest+1))
	if err != nil || answer.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("too large: %v, %v", answer, err)
	}
	s.gateway.memory = bounded.NewBudget(0)
	answer, _, err = s.post(t, chat, question)
	if err != nil || answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("no memory: %v, %v", answer, err)
	}
	if calls := s.ended(t); len(calls) > 0 {
		t.Errorf("%d calls", len(calls))
	}
}

// FuzzRoute checks that no target leads out of a base URL.
func FuzzRoute(f *testing.F) {
	for _, seed := range []string{"/p/chat/completions?x=1&key=2", "/p/%2e%2e/x", "/p/a%2fb", "//h/p", "http://h/p", "/p/models/m:generateContent?alt=sse", "/p/\xff", "/p?key=%6bey", "/p/;a=b"} {
		f.Add(seed)
	}
	base := &url.URL{Scheme: "https", Host: "provider.example", Path: "/base/v1"}
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		to, err := routeOf(u)
		if err != nil {
			return
		}
		out := to.under(base)
		back, err := url.Parse(out.String())
		if err != nil {
			t.Fatalf("%q leads to %q: %v", target, out, err)
		}
		if back.Host != base.Host || back.Scheme != base.Scheme || back.User != nil || back.Path != base.Path && !strings.HasPrefix(back.JoinPath().Path, base.Path+"/") {
			t.Fatalf("%q leads to %s", target, back)
		}
		for name := range back.Query() {
			if strings.EqualFold(name, "key") {
				t.Fatalf("%q keeps a key: %s", target, back)
			}
		}
	})
}

// FuzzNormal checks that no body prevents a request from being recognized, and that the order of
// members says nothing.
func FuzzNormal(f *testing.F) {
	f.Add([]byte(`{"b":1,"a":{"x":[1.0,"2026-01-02"]},"user":"u"}`))
	f.Add([]byte(`[1`))
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, body []byte) {
		if one, two := digest(&record{}, "POST", "/x", body), digest(&record{}, "POST", "/x", append([]byte(nil), body...)); one != two || len(one) != 64 {
			t.Fatalf("%s, %s", one, two)
		}
	})
}

// What the gateway cannot find: a provider has the key, and can always encode it in its own
// way. This test documents that limit of the redaction.
func TestKeyInDisguiseIsNotFound(t *testing.T) {
	t.Parallel()
	once := base64.StdEncoding.EncodeToString([]byte("x" + key))
	disguised := base64.StdEncoding.EncodeToString([]byte(once))
	s := over(t, say(disguised))
	if _, got, _ := s.post(t, chat, question); got != disguised {
		t.Errorf("%q: the documents say that this is not found", got)
	}
	if c := s.only(t); c.Outcome != evidence.ModelOK {
		t.Errorf("%s", c.Outcome)
	}
}
