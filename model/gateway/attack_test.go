package gateway

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
	s := over(t, say(answered), func(p *Provider, _ *eval.ModelLimits) { p.Kind = "" })
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

// TestParts checks which requests reach a provider of each kind.
func TestParts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ passed, refused []string }{
		eval.KindOpenAI: {
			[]string{"POST /chat/completions", "POST /v1/responses", "POST /responses/input_tokens", "GET /models", "GET /v1/models/ft:m"},
			[]string{
				"POST /organization/admin_api_keys/responses", "POST /x/chat/completions", "POST /threads/t/messages", "POST /messages",
				"HEAD /models", "GET /chat/completions", "GET /chat/completions/c", "POST /chat/completions/c", "DELETE /chat/completions/c", "GET /responses/r", "POST /responses/r/cancel",
				"POST /responses/compact", "POST /conversations/c/responses", "POST /batches", "POST /files", "POST /embeddings", "POST /images/generations", "POST /audio/speech",
				"GET /realtime", "POST /fine_tuning/jobs", "POST /threads/runs", "POST /assistants", "POST /completions", "DELETE /models/ft:m", "GET /models/m/x",
				"POST /Chat/Completions", "POST /chat/completions;x", "POST /v1/v1/responses", "POST /moderations", "GET /usage", "POST /chat/completions%20", "POST /models/m:generateContent",
			},
		},
		eval.KindAnthropic: {
			[]string{"POST /v1/messages?beta=true", "POST /v1/messages/count_tokens", "GET /v1/models?limit=5"},
			[]string{
				"POST /v1/messages/batches", "GET /v1/messages/batches/b/results", "POST /v1/files", "POST /v1/organizations/x/messages", "POST /v1/complete", "GET /v1/messages",
				"POST /v1/chat/completions", "POST /v1/skills", "GET /v1/organizations/api_keys", "POST /v1/experimental/generate_prompt",
			},
		},
		eval.KindGoogle: {
			[]string{"POST /v1beta/models/m:streamGenerateContent?alt=sse", "POST /v1beta/models/m%3AgenerateContent", "POST /v1beta/tunedModels/m:generateContent", "POST /v1beta/models/m:countTokens", "GET /v1beta/models"},
			[]string{
				"POST /v1beta/models/m:batchGenerateContent", "POST /v1beta/models/m:predictLongRunning", "POST /v1beta/models/m:embedContent", "POST /v1beta/cachedContents",
				"POST /v1beta/batches/b:generateContent", "POST /v1beta/models/a:b:generateContent", "GET /v1beta/operations/o", "DELETE /v1beta/tunedModels/m", "POST /upload/v1beta/files",
				"POST /v1beta/models/m:GenerateContent", "POST /v1beta/projects/p/models/m:generateContent", "GET /v1beta/models/m:generateContent",
			},
		},
		eval.KindAzure: {
			[]string{"POST /deployments/d/chat/completions?api-version=1", "POST /openai/deployments/d/chat/completions", "POST /v1/responses", "POST /openai/v1/responses", "GET /openai/models"},
			[]string{"POST /deployments/d/extensions/chat/completions", "POST /deployments/d/images/generations", "PUT /deployments/d", "POST /deployments/a/b/chat/completions", "POST /batches", "POST /files/chat/completions"},
		},
	}
	for kind, test := range tests {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			reached := 0
			s := over(t, func(w http.ResponseWriter, r *http.Request) { reached++; say(answered)(w, r) }, func(p *Provider, _ *eval.ModelLimits) { p.Kind = kind })
			for i, request := range slices.Concat(test.passed, test.refused) {
				method, path, _ := strings.Cut(request, " ")
				body := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(question), question)
				status, before := s.raw(t, method+" /p"+path+" HTTP/1.1\r\nHost: model\r\nConnection: close\r\n"+body), reached-1
				if passed := i < len(test.passed); passed != (before == i) || passed != (status == http.StatusOK) {
					t.Errorf("%s: %d", request, status)
				}
			}
		})
	}
}

// TestHeadersAndParameters checks that nothing in a request has it taken for another, or paid for
// by somebody else.
func TestHeadersAndParameters(t *testing.T) {
	t.Parallel()
	var got *http.Request
	s := over(t, func(w http.ResponseWriter, r *http.Request) { got = r.Clone(r.Context()); say(answered)(w, r) })
	query := "?beta=true&$httpMethod=DELETE&_method=DELETE&%24alt=media&ALT=x&key=k&%6bey=k&oauth_token=x&quotaUser=u&userProject=p&callback=f&limit=%35;x=1"
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+chat+query, strings.NewReader(question))
	for _, name := range []string{
		"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Host", "X-Forwarded-For", "Forwarded", "Via",
		"OpenAI-Organization", "OpenAI-Project", "X-Goog-User-Project", "Anthropic-Organization", "Authorization", "Proxy-Authorization", "X-Api-Key", "x_api_key", "Api_Key", "Cookie", "Cookie2",
		"Idempotency-Key", "Range", "If-None-Match", "Origin", "Referer", "Expect-Ct", "X-Amz-Target", "Upgrade-Insecure-Requests", "Accept-Charset", "Content-Location",
	} {
		r.Header[name] = []string{"of-the-agent"}
	}
	r.Header.Set("Content-Type", "application/json; charset=utf-7")
	r.Header.Set("Connection", "Authorization, X-Api-Key")
	for _, name := range []string{"Anthropic-Version", "Anthropic-Beta", "Openai-Beta", "X-Stainless-Lang", "X-Goog-Api-Client", "User-Agent", "Accept"} {
		r.Header.Set(name, "for-the-provider")
	}
	answer, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if got.URL.RawQuery != "beta=true&limit=5%3Bx%3D1" {
		t.Errorf("the provider gets the query %q", got.URL.RawQuery)
	}
	for name, values := range got.Header {
		switch {
		case strings.Contains(fmt.Sprint(values), "of-the-agent"):
			t.Errorf("the provider gets %s: %q", name, values)
		case strings.Contains(fmt.Sprint(values), "for-the-provider"):
			delete(got.Header, name)
		}
	}
	want := http.Header{"Accept-Encoding": {"identity"}, "Authorization": {"Bearer " + key}, "Content-Length": {fmt.Sprint(len(question))}, "Content-Type": {"application/json"}}
	if diff := cmp.Diff(want, got.Header); diff != "" {
		t.Errorf("the provider gets (-want +got):\n%s", diff)
	}
}

// TestAskedOnce checks that a request that a client calls repeatable is not sent again behind the
// count.
func TestAskedOnce(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	s := over(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if asked.Add(1) == 1 {
			say(answered)(w, r)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close() // as a proxy does whose time is up
		}
	})
	for range 2 {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+chat, strings.NewReader(question))
		r.Header.Set("Idempotency-Key", "1")
		r.Header.Set("X-Idempotency-Key", "1")
		answer, err := s.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
	}
	if calls := s.ended(t); int64(len(calls)) != asked.Load() {
		t.Errorf("%d calls, and the provider was asked %d times", len(calls), asked.Load())
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
			w.Header().Set("X-Request-Id", r.Header.Get("Authorization"))
			w.Header().Set("Content-Type", "text/plain; "+r.Header.Get("Authorization"))
		},
		"in a header's name": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-"+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), "1")
			w.Header().Set("X-Ratelimit-"+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), "1")
		},
		"in a hint": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", r.Header.Get("Authorization"))
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Del("Link")
		},
		"in the status": func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 %s\r\nConnection: close\r\n\r\n", r.Header.Get("Authorization"))
				_ = conn.Close()
			}
		},
		"in a chunk's extension": func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;%s\r\nx\r\n0\r\n\r\n", key)
				_ = conn.Close()
			}
		},
		"in no header": func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\n%s\r\n\r\n", key)
				_ = conn.Close()
			}
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
			if strings.Contains(strings.ToLower(all+answer.Status), key) {
				t.Errorf("the agent has the key: %s", all)
			}
			dropped := slices.Contains([]string{"in a header's name", "in a hint", "in the status", "in a chunk's extension", "in a trailer"}, name)
			if answer.StatusCode != http.StatusBadGateway && !dropped && !strings.Contains(all, blank) {
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
