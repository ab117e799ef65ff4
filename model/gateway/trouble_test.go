package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
)

// hijacked writes text to the connection and then ends it as end does.
func hijacked(text string, end func(net.Conn)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(conn, text)
		end(conn)
	}
}

func closeConn(conn net.Conn) { _ = conn.Close() }

func resetConn(conn net.Conn) {
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

// TestErrorsPass checks that a provider's errors are the agent's, to the byte.
func TestErrorsPass(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{429: evidence.ModelRefused, 500: evidence.ModelRefused, 529: evidence.ModelRefused, 404: evidence.ModelRefused} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			text := `{"error":{"message":"slow  down","type":"x"}}`
			s := over(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "7")
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, text)
			})
			answer, got, err := s.post(t, chat, question)
			if err != nil || answer.StatusCode != status || got != text || answer.Header.Get("Retry-After") != "7" {
				t.Errorf("%v, %v, %q", err, answer, got)
			}
			if c := s.only(t); c.Outcome != want || c.Status != status || c.Error != "slow  down" || c.Usage != nil {
				t.Errorf("recorded %+v", c)
			}
		})
	}
}

// TestBrokenAnswers checks that an answer that breaks off breaks off for the agent where
// it did, and never looks whole.
func TestBrokenAnswers(t *testing.T) {
	t.Parallel()
	const begun = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	tests := map[string]struct {
		provider http.HandlerFunc
		got      string
	}{
		"closed in a stream":    {hijacked(begun+"Transfer-Encoding: chunked\r\n\r\n6\r\ndata: \r\n", closeConn), "data: "},
		"half a chunk":          {hijacked(begun+"Transfer-Encoding: chunked\r\n\r\n6\r\ndata: \r\nff\r\n{\"ch", closeConn), "data: {\"ch"},
		"short of its length":   {hijacked(begun+"Content-Length: 100\r\n\r\n{\"a\":", closeConn), "{\"a\":"},
		"no chunk where one is": {hijacked(begun+"Transfer-Encoding: chunked\r\n\r\n6\r\ndata: \r\nnonsense\r\n", closeConn), "data: "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := over(t, test.provider)
			answer, got, err := s.post(t, chat, question)
			if err == nil {
				t.Errorf("the agent takes %v, %q for whole", answer, got)
			}
			if !strings.HasPrefix(got, test.got) {
				t.Errorf("the agent got %q, want %q", got, test.got)
			}
			c := s.only(t)
			if c.Outcome != evidence.ModelTransport || c.Status != 200 || !strings.HasPrefix(string(c.Response), test.got) || c.Error == "" {
				t.Errorf("recorded %s, %d, %q, %q", c.Outcome, c.Status, c.Response, c.Error)
			}
		})
	}
}

// TestResetInStream holds the same of a connection that is reset.
func TestResetInStream(t *testing.T) {
	t.Parallel()
	took := make(chan struct{})
	s := over(t, hijacked("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\ndata: \r\n", func(c net.Conn) {
		<-took
		resetConn(c)
	}))
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+chat, strings.NewReader(question))
	answer, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if _, err := io.ReadFull(answer.Body, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	close(took)
	if rest, err := io.ReadAll(answer.Body); err == nil || len(rest) > 0 {
		t.Errorf("then %q, %v", rest, err)
	}
	if c := s.only(t); c.Outcome != evidence.ModelTransport || string(c.Response) != "data: " {
		t.Errorf("recorded %s, %q", c.Outcome, c.Response)
	}
}

// TestNoAnswer checks the error that an agent gets if a provider does not respond.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	redirect := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://192.0.2.1/x", http.StatusTemporaryRedirect)
	}
	zipped := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, "zipped")
	}
	tests := map[string]struct {
		provider http.HandlerFunc
		status   int
		says     string
	}{
		"closes":          {hijacked("", closeConn), 502, "EOF"},
		"resets":          {hijacked("", resetConn), 502, "reset"},
		"redirects":       {redirect, 502, "redirect"},
		"compresses":      {zipped, 502, "encoding"},
		"other protocol":  {hijacked("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", closeConn), 502, "answered 101"},
		"no status":       {hijacked("HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n", closeConn), 502, ""},
		"no HTTP":         {hijacked("SSH-2.0-OpenSSH\r\n", closeConn), 502, "malformed"},
		"endless headers": {hijacked("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 12<<20), closeConn), 502, "exceeded"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := over(t, test.provider)
			answer, got, err := s.post(t, chat, question)
			if err != nil || answer.StatusCode != test.status || !strings.Contains(got, `"error"`) || !strings.Contains(got, test.says) {
				t.Fatalf("%v, %v, %q", err, answer, got)
			}
			if c := s.only(t); c.Outcome != evidence.ModelTransport || c.Status != test.status || string(c.Response) != got {
				t.Errorf("recorded %+v", c)
			}
		})
	}
}

// TestStalls checks that a provider that falls silent is left, before an answer and within
// one, and that the agent is not told that it ended normally.
func TestStalls(t *testing.T) {
	for name, test := range map[string]struct {
		begins string
		status int
	}{"before": {"", 504}, "within": {"data: ", 200}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec := &record{}
				took, broken := ask(t, rec, eval.ModelLimits{}, func(w http.ResponseWriter, r *http.Request) {
					if test.begins != "" {
						_, _ = io.WriteString(w, test.begins)
						_ = http.NewResponseController(w).Flush()
					}
					<-r.Context().Done()
				})
				if took < defaultSilence || took > 2*defaultSilence || broken != (test.begins != "") {
					t.Errorf("it took %s, broken %t", took, broken)
				}
				if c := rec.calls[0]; c.Outcome != evidence.ModelTransport || c.Status != test.status || c.Error != errSilent.Error() {
					t.Errorf("recorded %+v", c)
				}
			})
		})
	}
}

// ask asks a provider once that is played in process, by the clock of a bubble.
func ask(t *testing.T, rec *record, limits eval.ModelLimits, provider http.HandlerFunc) (took time.Duration, broken bool) {
	t.Helper()
	patient := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a server notices that its client has gone once it has read the request
		provider(w, r)
	})
	g := New(rec, limits, Provider{Name: "p", BaseURL: &url.URL{Scheme: "http", Host: "model"}, Transport: InProcess(patient)})
	defer g.Close()
	began := time.Now()
	defer func() {
		took = time.Since(began)
		broken = recover() != nil
	}()
	g.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, chat, strings.NewReader(question)))
	return 0, false
}

// TestRefusedKey checks that the error about a refused key says what to do.
func TestRefusedKey(t *testing.T) {
	t.Parallel()
	for _, status := range []int{401, 403} {
		for _, variable := range []string{"P_KEY", ""} {
			s := over(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", status) }, func(p *Provider, _ *eval.ModelLimits) {
				if p.KeyEnv = variable; variable == "" {
					p.Key = ""
				}
			})
			for range 2 {
				if answer, _, err := s.post(t, chat, question); err != nil || answer.StatusCode != status {
					t.Errorf("%v, %v", answer, err)
				}
			}
			s.ended(t)
			reported := strings.Join(s.gateway.Refused(), "|")
			want := "set the environment variable P_KEY"
			if variable == "" {
				want = "config.models.p.api_key_env"
			}
			if !strings.Contains(reported, want) || !strings.Contains(reported, fmt.Sprint(status)) {
				t.Errorf("told %q", reported)
			}
			if kinds := s.kinds(); !slices.Equal(kinds, []string{"unauthorized"}) {
				t.Errorf("events %q", kinds)
			}
		}
	}
}

// TestBrokenOff checks that an answer that the provider breaks off is its fault, and none that the
// agent leaves, or is slow to take, or makes too large.
func TestBrokenOff(t *testing.T) {
	t.Parallel()
	const begun = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	const event = "1d\r\ndata: {\"usage\":{\"a\":1234567}}\r\n"
	whole := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }
	for _, test := range []struct {
		name   string
		turns  []http.HandlerFunc
		broken bool
	}{
		{"closed", []http.HandlerFunc{hijacked(begun+event, closeConn)}, true},
		{"reset", []http.HandlerFunc{hijacked(begun+event, resetConn)}, true},
		{"short of its length", []http.HandlerFunc{hijacked("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", closeConn)}, true},
		{"after a whole one", []http.HandlerFunc{whole, hijacked(begun+event, closeConn)}, true},
		{"before a whole one", []http.HandlerFunc{hijacked(begun+event, closeConn), whole}, false},
		{"an error's text", []http.HandlerFunc{hijacked("HTTP/1.1 400 No\r\nContent-Length: 9\r\n\r\n{", closeConn)}, false},
		{"no answer", []http.HandlerFunc{hijacked("", closeConn)}, false}, // waza's own request gets one
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			turns := test.turns
			s := over(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					return
				}
				next := turns[0]
				turns = turns[1:]
				next(w, r)
			})
			for range test.turns {
				_, _, _ = s.post(t, chat, question)
			}
			s.ended(t)
			err := s.gateway.Down(t.Context())
			if test.broken != (err != nil && strings.Contains(err.Error(), `model provider "p" broke off its last answer`)) {
				t.Errorf("%v", err)
			}
		})
	}
	t.Run("the agent leaves", func(t *testing.T) {
		t.Parallel()
		s := over(t, hijacked(begun+event, func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1)) // until the gateway leaves
			_ = c.Close()
		}))
		ctx, cancel := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.url+chat, strings.NewReader(question))
		answer, err := s.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadFull(answer.Body, make([]byte, 6))
		cancel()
		_ = answer.Body.Close()
		s.ended(t)
		if c := s.only(t); c.Outcome != evidence.ModelCancelled {
			t.Errorf("recorded %s", c.Outcome)
		}
		if err := s.gateway.Down(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("the agent is slow", func(t *testing.T) {
		t.Parallel()
		c := &call{record: evidence.ModelCall{Outcome: evidence.ModelTransport, Status: 200}}
		if !c.brokenOff(io.ErrUnexpectedEOF) || c.brokenOff(errTooLarge) || c.brokenOff(errSilent) {
			t.Error("not by what broke it")
		}
		c.slow = true
		if c.brokenOff(io.ErrUnexpectedEOF) {
			t.Error("an agent that is slow breaks an answer off")
		}
	})
}

// TestDown checks that a provider is down where it fails the agent's last turn and a request
// of our own in the same way.
func TestDown(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		turns []int
		own   int
		want  string
	}{
		{[]int{401}, 401, "set the environment variable P_KEY"},
		{[]int{403, 403}, 401, "set the environment variable P_KEY"},
		{[]int{200, 503}, 500, `model provider "p" answers 500, also to waza itself`},
		{[]int{503}, 200, ""},
		{[]int{503}, 401, ""},
		{[]int{401}, 404, ""},
		{[]int{503, 200}, 503, ""},
		{[]int{400}, 503, ""},
	} {
		turns := test.turns
		s := over(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				if r.URL.Path != "/base/v1/models" || r.Header.Get("Authorization") != "Bearer "+key {
					t.Errorf("asked for %s with %q", r.URL.Path, r.Header.Get("Authorization"))
				}
				w.WriteHeader(test.own)
				return
			}
			w.WriteHeader(turns[0])
			turns = turns[1:]
		})
		for range test.turns {
			_, _, _ = s.post(t, chat, question)
		}
		s.ended(t)
		err := s.gateway.Down(t.Context())
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("turns %v, own %d: %v, want %q", test.turns, test.own, err, test.want)
		}
	}
	s := over(t, func(http.ResponseWriter, *http.Request) {})
	s.provider.Close()
	_, _, _ = s.post(t, chat, question)
	s.ended(t)
	if err := s.gateway.Down(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot be reached, not even by waza itself") || strings.Contains(err.Error(), key) {
		t.Errorf("%v", err)
	}
}
