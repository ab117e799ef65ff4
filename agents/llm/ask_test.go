package llm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/agents/input"
)

// ask asks once for an answer of an endpoint, and notes the waits instead of waiting.
func ask(t *testing.T, o input.LLM, handle http.HandlerFunc) (answer, []time.Duration, error) {
	t.Helper()
	endpoint := httptest.NewServer(handle)
	defer endpoint.Close()
	m := newModel(input.Input{LLM: &o, ModelURL: endpoint.URL + "/"}, nil)
	defer m.close()
	var waits []time.Duration
	m.retry.Wait = func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil }
	a, err := m.ask(t.Context())
	return a, waits, err
}

// What may pass is tried again: as late as the endpoint asks, else later each time, and
// not for ever. What will not pass is not.
func TestTriedAgain(t *testing.T) {
	reset := func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.Close()
		}
	}
	status := func(code int, body string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	half := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"choices":`)
	}
	const s = time.Second
	for name, test := range map[string]struct {
		fails http.HandlerFunc
		times int
		waits []time.Duration
		says  string // with the error, where it never passes
	}{
		"as late as it asks":      {status(429, "", "Retry-After", "7"), 1, []time.Duration{7 * s}, ""},
		"no sooner than we would": {status(503, "", "Retry-After", "0"), 2, []time.Duration{s, 2 * s}, ""},
		"a reset":                 {reset, 1, []time.Duration{s}, ""},
		"half an answer":          {half, 1, []time.Duration{s}, ""},
		"not for ever":            {status(500, `{"error":{"message":"oh"}}`), 9, []time.Duration{s, 2 * s, 4 * s, 8 * s}, `the model answers 500: "oh", and so 5 times in a row`},
		"too long a wait":         {status(429, "", "Retry-After", "3600"), 9, nil, "it asks to wait for 1h0m0s, which is too long"},
		"its quota is spent":      {status(429, `{"error":{"message":"the trial's tokens are spent","type":"insufficient_quota"}}`), 9, nil, `the model answers 429: "the trial's tokens are spent"`},
		"not to be tried again":   {status(503, "", "X-Should-Retry", "false"), 9, nil, "the model answers 503"},
		"a wrong key":             {status(401, `{"error":{"message":"no"}}`), 9, nil, `the model answers 401: "no"`},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			_, waits, err := ask(t, input.LLM{}, func(w http.ResponseWriter, r *http.Request) {
				if n++; n <= test.times {
					test.fails(w, r)
					return
				}
				_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"ok"}}]}`)
			})
			if (test.says == "") != (err == nil) || err != nil && (!errors.Is(err, ErrModel) || !strings.Contains(err.Error(), test.says)) {
				t.Errorf("got %v, want %q", err, test.says)
			}
			if fmt.Sprint(waits) != fmt.Sprint(test.waits) {
				t.Errorf("waited %v, want %v", waits, test.waits)
			}
		})
	}
}

// Newer models take a limit of tokens under another name.
func TestLimitOfTokens(t *testing.T) {
	var bodies []string
	_, _, err := ask(t, input.LLM{MaxTokens: 50}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		if strings.Contains(string(body), `"max_tokens"`) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."}}`)
			return
		}
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"ok"}}]}`)
	})
	if err != nil || len(bodies) != 2 || !strings.Contains(bodies[1], `"max_completion_tokens":50`) {
		t.Errorf("%v, asked %q", err, bodies)
	}
}

func FuzzReadAnswer(f *testing.F) {
	f.Add([]byte(`{"choices":[{"finish_reason":"stop","message":{"content":"x","tool_calls":[{"id":"a","function":{"name":"n","arguments":"{}"}}]}}]}`))
	f.Add([]byte(`{"choices":[{"message":{"content":[{"text":"x"}],"tool_calls":[{"function":{"arguments":{"a":1}}}]}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		a, err := readAnswer(body)
		if err != nil {
			return
		}
		if len(a.Calls) > maxCalls {
			t.Errorf("%d calls", len(a.Calls))
		}
		m := newModel(input.Input{LLM: &input.LLM{}}, nil)
		m.add(&a)
		for _, call := range a.Calls {
			if call.ID == "" || len(call.Function.Arguments.reported()) == 0 {
				t.Errorf("%+v", call)
			}
		}
		if encode(m.request) == nil {
			t.Errorf("%q cannot go back", body)
		}
	})
}
