package judge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/judgetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "canary-key-0123456789"

var question = evidence.JudgeAsk{
	Model: "m", Messages: []evidence.JudgeMessage{{Role: "system", Content: "s"}, {Role: "user", Content: "u"}},
	Schema: json.RawMessage(`{"type":"object"}`), Sample: 1,
}

// connect is a client that notes how long it would wait instead of waiting.
func connect(t *testing.T, baseURL string) (*Client, *[]time.Duration) {
	t.Helper()
	c, err := New(evidence.Judge{BaseURL: baseURL, APIKeyEnv: "JUDGE_KEY", TimeoutSeconds: 60}, key, &secret.Set{})
	if err != nil {
		t.Fatal(err)
	}
	waits := &[]time.Duration{}
	c.retry.Wait = func(_ context.Context, d time.Duration) error { *waits = append(*waits, d); return nil }
	return c, waits
}

func TestAnswer(t *testing.T) {
	e := judgetest.Serve(t, judgetest.Saying(`{"score":1,"reason":"r"}`))
	c, _ := connect(t, e.URL)
	ask := question
	cool := 0.0
	ask.Temperature, ask.MaxTokens = &cool, 50
	got, err := c.Answer(t.Context(), ask)
	want := evidence.JudgeAnswer{Text: `{"score":1,"reason":"r"}`, Model: "scripted-1", Finish: "stop", InputTokens: 100, OutputTokens: 10}
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	asked := e.Asked()[0]
	b := asked.Body
	if asked.Path != "/v1/chat/completions" || asked.Authorization != "Bearer "+key || b.Model != "m" || len(b.Messages) != 2 ||
		b.MaxTokens != 50 || b.Temperature == nil || *b.Temperature != 0 || b.Format == nil || b.Format.Type != "json_schema" {
		t.Errorf("asked %+v", asked)
	}
}

// An endpoint that takes no schema is asked without one, then and later.
func TestWithoutASchema(t *testing.T) {
	e := judgetest.Serve(t, func(_ int, asked judgetest.Asked, w http.ResponseWriter) {
		if asked.Body.Format != nil {
			judgetest.Fail(http.StatusBadRequest, "response_format is not supported")(0, asked, w)
			return
		}
		judgetest.Say(w, "{}")
	})
	c, _ := connect(t, e.URL)
	for range 2 {
		if got, err := c.Answer(t.Context(), question); err != nil || got.Text != "{}" {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if n := len(e.Asked()); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}

// What will not pass is not tried again, and says what to do.
func TestFailuresThatStay(t *testing.T) {
	for name, test := range map[string]struct {
		answer   func(int, judgetest.Asked, http.ResponseWriter)
		requests int
		says     string
	}{
		"no such key": {judgetest.Fail(401, "Incorrect key: "+key), 1, `answers 401: "Incorrect key: ` + secret.Marked(key) + `"; set the environment variable JUDGE_KEY to a key that it takes`},
		"forbidden":   {judgetest.Fail(403, ""), 1, "set the environment variable JUDGE_KEY"},
		"not there":   {judgetest.Fail(404, "no model m"), 1, `answers 404: "no model m"; see whether config.judge.base_url is right`},
		"bad request": {judgetest.Fail(400, "too many tokens"), 2, `answers 400: "too many tokens"`},
		"a redirect": {func(_ int, _ judgetest.Asked, w http.ResponseWriter) {
			w.Header().Set("Location", "http://192.0.2.1/steal")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, 1, `redirects (307) to "http://192.0.2.1/steal", and redirects are not followed`},
		"no completion": {func(_ int, _ judgetest.Asked, w http.ResponseWriter) { _, _ = io.WriteString(w, "<html>\x1b[2J") }, 1, `something else than a chat completion: "<html>\x1b[2J"`},
		"no choice":     {func(_ int, _ judgetest.Asked, w http.ResponseWriter) { _, _ = io.WriteString(w, `{"choices":[]}`) }, 1, "something else than a chat completion"},
		"a huge answer": {func(_ int, _ judgetest.Asked, w http.ResponseWriter) {
			for range maxResponse/(64<<10) + 2 {
				_, _ = io.WriteString(w, strings.Repeat(" ", 64<<10))
			}
		}, 1, "sends more than 4 MiB"},
		"a huge text":                   {judgetest.Saying(strings.Repeat("x", maxText+1)), 1, "too long to be one"},
		"too long a wait":               {tooMany("3600"), 1, "asks to wait for 1h0m0s, which is too long"},
		"a huge error":                  {judgetest.Fail(401, strings.Repeat("é", 1<<20)), 1, "…"},
		"an error around the key's end": {judgetest.Fail(401, strings.Repeat("x", maxSaid-10)+key), 1, "xxx"},
	} {
		t.Run(name, func(t *testing.T) {
			e := judgetest.Serve(t, test.answer)
			c, _ := connect(t, e.URL)
			_, err := c.Answer(t.Context(), question)
			if err == nil || !strings.Contains(err.Error(), test.says) || len(err.Error()) > 2000 {
				t.Errorf("got %.2000v\nwant …%s…", err, test.says)
			}
			if err != nil && strings.Contains(err.Error(), key[:8]) {
				t.Errorf("the key is in %v", err)
			}
			if n := len(e.Asked()); n != test.requests {
				t.Errorf("%d requests, want %d", n, test.requests)
			}
		})
	}
}

func tooMany(after string) func(int, judgetest.Asked, http.ResponseWriter) {
	return func(_ int, _ judgetest.Asked, w http.ResponseWriter) {
		w.Header().Set("Retry-After", after)
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

// What may pass is tried again: as late as the endpoint asks, else later each time, and
// not for ever.
func TestTriedAgain(t *testing.T) {
	reset := func(_ int, _ judgetest.Asked, w http.ResponseWriter) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}
	for name, test := range map[string]struct {
		fails func(int, judgetest.Asked, http.ResponseWriter)
		times int
		waits []time.Duration
		says  string // with the error, where it never passes
	}{
		"as late as it asks":      {tooMany("7"), 1, []time.Duration{7 * time.Second}, ""},
		"no sooner than we would": {tooMany("0"), 2, []time.Duration{time.Second, 2 * time.Second}, ""},
		"a server's error":        {judgetest.Fail(503, ""), 1, []time.Duration{time.Second}, ""},
		"a reset":                 {reset, 1, []time.Duration{time.Second}, ""},
		"not for ever":            {judgetest.Fail(500, "oh"), 9, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, `answers 500: "oh", and so 4 times in a row`},
		"resets for ever":         {reset, 9, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, "cannot be reached: EOF, and so 4 times"},
	} {
		t.Run(name, func(t *testing.T) {
			e := judgetest.Serve(t, func(n int, asked judgetest.Asked, w http.ResponseWriter) {
				if n <= test.times {
					test.fails(n, asked, w)
					return
				}
				judgetest.Say(w, "{}")
			})
			c, waits := connect(t, e.URL)
			_, err := c.Answer(t.Context(), question)
			if (test.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %q", err, test.says)
			}
			if fmt.Sprint(*waits) != fmt.Sprint(test.waits) {
				t.Errorf("waited %v, want %v", *waits, test.waits)
			}
		})
	}
}

// A request ends if the endpoint does not answer, or if the caller cancels it.
func TestStalls(t *testing.T) {
	release := make(chan struct{})
	e := judgetest.Serve(t, func(int, judgetest.Asked, http.ResponseWriter) { <-release })
	t.Cleanup(func() { close(release) })
	c, waits := connect(t, e.URL)
	c.timeout = 10 * time.Millisecond
	if _, err := c.Answer(t.Context(), question); err == nil || !strings.Contains(err.Error(), "does not answer within 10ms, and so 4 times") {
		t.Errorf("got %v", err)
	}
	if len(*waits) != maxAttempts-1 {
		t.Errorf("waited %v", *waits)
	}
	c.timeout = time.Hour
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	before := len(e.Asked())
	left := make(chan error)
	go func() { _, err := c.Answer(ctx, question); left <- err }()
	for len(e.Asked()) == before {
		time.Sleep(time.Millisecond)
	}
	cancel(gone)
	if err := <-left; !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

// The number of parallel questions to an endpoint is limited.
func TestAtOnce(t *testing.T) {
	var mu sync.Mutex
	now, most := 0, 0
	full, once := make(chan struct{}), sync.Once{}
	e := judgetest.Serve(t, func(_ int, _ judgetest.Asked, w http.ResponseWriter) {
		mu.Lock()
		now++
		most = max(most, now)
		if now == maxAtOnce {
			once.Do(func() { close(full) })
		}
		mu.Unlock()
		<-full                            // all that may be are under way
		time.Sleep(20 * time.Millisecond) // in which one too many would come
		mu.Lock()
		now--
		mu.Unlock()
		judgetest.Say(w, "{}")
	})
	c, _ := connect(t, e.URL)
	var all sync.WaitGroup
	for range 3 * maxAtOnce {
		all.Go(func() { _, _ = c.Answer(t.Context(), question) })
	}
	all.Wait()
	if most != maxAtOnce {
		t.Errorf("%d at once, want %d", most, maxAtOnce)
	}
}

// An untrusted certificate is refused, and the key is not sent.
func TestCertificateIsVerified(t *testing.T) {
	seen := ""
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Header.Get("Authorization") }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	c, waits := connect(t, server.URL)
	_, err := c.Answer(t.Context(), question)
	if err == nil || !strings.Contains(err.Error(), "cannot be trusted") || seen != "" || len(*waits) > 0 {
		t.Errorf("got %v; the endpoint saw %q", err, seen)
	}
}

// The environment cannot redirect where a key is sent.
func TestNoProxyOfTheEnvironment(t *testing.T) {
	c, _ := connect(t, "https://models.example")
	if c.http.Proxy != nil {
		t.Error("a proxy of the environment is used")
	}
}

func TestNew(t *testing.T) {
	for _, test := range []struct{ url, env, key, wrong string }{
		{"https://models.example/v1", "K", key, ""},
		{"https://models.example/v1/", "", "", ""},
		{"http://localhost:11434/v1", "", "", ""},
		{"http://[::1]:1/v1", "K", key, ""},
		{"http://models.example/v1", "K", key, "must begin with https://"},
		{"http://localhost.models.example/v1", "K", key, "must begin with https://"},
		{"https://user:pass@models.example", "K", key, "must not hold credentials"},
		{"https://models.example/?key=x", "K", key, "query"},
		{"https:///v1", "K", key, "must be a URL"},
		{"ftp://models.example", "K", key, "must be a URL"},
		{"https://models.example", "K", "", "the environment variable K is not set; set it to the key"},
		{"https://models.example", "K", "tiny", "shorter than 8"},
		{"https://models.example", "K", "with a\nline break", "another character"},
	} {
		_, err := New(evidence.Judge{BaseURL: test.url, APIKeyEnv: test.env, TimeoutSeconds: 1}, test.key, &secret.Set{})
		if (test.wrong == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("%+v: %v", test, err)
		}
		if err != nil && test.key != "" && strings.Contains(err.Error(), test.key) {
			t.Errorf("the key is in %v", err)
		}
	}
}

// Every response of an endpoint is either refused or an answer with consistent counts.
func FuzzReadReply(f *testing.F) {
	for _, seed := range []string{
		`{"choices":[{"message":{"content":"{}"}}],"usage":{"prompt_tokens":1}}`, `{"choices":[{"message":{"refusal":"no"}}]}`, `[]`, `{"choices":[null]}`,
		`{"choices":[{"message":{"content":null}}],"usage":{"completion_tokens":-9223372036854775808}}`,
	} {
		f.Add([]byte(seed))
	}
	c := &Client{}
	f.Fuzz(func(t *testing.T, content []byte) {
		answer, err := c.readReply(content)
		if err != nil {
			if len(err.Error()) > 2000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if answer.InputTokens < 0 || answer.OutputTokens < 0 || answer.InputTokens > maxTokens || answer.OutputTokens > maxTokens || len(answer.Text) > maxText {
			t.Errorf("%+v", answer)
		}
	})
}
