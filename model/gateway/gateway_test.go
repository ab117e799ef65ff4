package gateway

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/heavytest"
	"github.com/waza-isolate/waza/model/dialect"
)

// TestPassing checks what a provider gets of a request, and what is recorded.
func TestPassing(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	s := over(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Clone(r.Context())
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("Set-Cookie", "session=1")
		w.Header().Set("X-Request-Id", "req_1")
		say(answered)(w, r)
	})
	answer, text, err := s.post(t, chat+"?api-version=7&key=waza", question)
	if err != nil || text != answered || answer.StatusCode != http.StatusOK {
		t.Fatalf("%v, %q", err, text)
	}
	if answer.Header.Get("X-Request-Id") != "req_1" || answer.Header.Get("Set-Cookie") != "" {
		t.Errorf("the agent gets the headers %v", answer.Header)
	}
	if got.URL.String() != "/base/v1/chat/completions?api-version=7" || string(body) != question {
		t.Errorf("the provider gets %s, %s", got.URL, body)
	}
	if h := got.Header; h.Get("Authorization") != "Bearer "+key || h.Get("Accept-Encoding") != "identity" || got.Host == strings.TrimPrefix(s.url, "http://") {
		t.Errorf("the provider gets the headers %v for %s", h, got.Host)
	}
	c := s.only(t)
	if c.Path != "/chat/completions?api-version=7" || c.Dialect != dialect.Chat || c.Model != "m" || c.Status != 200 || c.Outcome != evidence.ModelOK {
		t.Errorf("recorded %+v", c)
	}
	if string(c.Request) != question || string(c.Response) != answered || c.Usage == nil || *c.Usage != (dialect.Usage{Input: 100, Output: 20, Cached: 40}) {
		t.Errorf("recorded %s, %s, %+v", c.Request, c.Response, c.Usage)
	}
	if c.Cost != nil || c.FirstByte.Before(c.Start) || c.FirstToken.Before(c.FirstByte) || c.End.Before(c.FirstToken) {
		t.Errorf("recorded cost %v, %v, %v, %v, %v", c.Cost, c.Start, c.FirstByte, c.FirstToken, c.End)
	}
}

// keyHeaders are the headers in which agents send keys, for any provider.
func keyHeaders() []string {
	return []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key"}
}

// TestCredentials checks that an agent's key is not forwarded, and the provider's
// own is given as it wants it.
func TestCredentials(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		eval.KindOpenAI: "Authorization", eval.KindAnthropic: "X-Api-Key", eval.KindGoogle: "X-Goog-Api-Key", eval.KindAzure: "Api-Key",
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var got http.Header
			s := over(t, func(w http.ResponseWriter, r *http.Request) { got = r.Header.Clone() }, func(p *Provider, _ *eval.ModelLimits) {
				p.Kind, p.Headers = kind, map[string]string{"X-Team": "blue"}
			})
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/p/models", nil)
			for _, name := range append(keyHeaders(), "X-Team") {
				r.Header.Set(name, "of-the-agent")
			}
			r.Header.Set("Anthropic-Version", "2023-06-01")
			r.Header.Set("Connection", "X-Hop")
			r.Header.Set("X-Hop", "1")
			answer, err := s.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			for _, name := range keyHeaders() {
				value := ""
				if name == want {
					value = key
				}
				if given := strings.TrimPrefix(got.Get(name), "Bearer "); given != value {
					t.Errorf("%s is %q, want %q", name, given, value)
				}
			}
			if got.Get("X-Team") != "blue" || got.Get("Anthropic-Version") != "2023-06-01" || got.Get("X-Hop") != "" {
				t.Errorf("the provider gets %v", got)
			}
		})
	}
}

// TestStream checks that each part of a stream is with the agent before the provider has
// sent the next. None ends in a character that a secret may begin with, in any encoding:
// such a part is held until that is decided.
func TestStream(t *testing.T) {
	t.Parallel()
	parts := []string{"data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n", "data: {\"choices\":[{\"delta\":{\"content\":\"he said ", "hello\"}}]}\n\n", "data: [DONE]\n\n"}
	took := make(chan struct{})
	s := over(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, part := range parts {
			_, _ = io.WriteString(w, part)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-took:
			case <-r.Context().Done():
				return
			}
		}
	})
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+chat, strings.NewReader(question))
	answer, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	for _, part := range parts {
		got := make([]byte, len(part))
		if _, err := io.ReadFull(answer.Body, got); err != nil || string(got) != part {
			t.Fatalf("%q, %v, want %q", got, err, part)
		}
		took <- struct{}{}
	}
	if rest, err := io.ReadAll(answer.Body); err != nil || len(rest) > 0 {
		t.Errorf("at the end %q, %v", rest, err)
	}
	if c := s.only(t); string(c.Response) != strings.Join(parts, "") || c.FirstToken.IsZero() || !c.FirstToken.After(c.FirstByte) {
		t.Errorf("recorded %q, first byte %v, first token %v", c.Response, c.FirstByte, c.FirstToken)
	}
}

// TestHundredStreams checks that streams side by side neither mix nor wait for each
// other: none ends before all have begun.
func TestHundredStreams(t *testing.T) {
	t.Parallel()
	const streams = 100
	var begun sync.WaitGroup
	begun.Add(streams)
	s := over(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
		_ = http.NewResponseController(w).Flush()
		begun.Done()
		begun.Wait()
		_, _ = fmt.Fprintf(w, " %x", sha256.Sum256(body))
	})
	var all sync.WaitGroup
	for i := range streams {
		all.Go(func() {
			body := fmt.Sprintf(`{"model":"m%d"}`, i)
			_, text, err := s.post(t, chat, body)
			if want := fmt.Sprintf("%s %x", body, sha256.Sum256([]byte(body))); err != nil || text != want {
				t.Errorf("%q, %v, want %q", text, err, want)
			}
		})
	}
	all.Wait()
	calls := s.ended(t)
	if len(calls) != streams {
		t.Fatalf("%d calls", len(calls))
	}
	for _, c := range calls {
		if !bytes.HasPrefix(c.Response, c.Request) || c.Outcome != evidence.ModelOK {
			t.Errorf("call %d: %s got %s, %s", c.Seq, c.Request, c.Response, c.Outcome)
		}
	}
}

func TestLargeAnswer(t *testing.T) {
	heavytest.Mark(t)
	t.Parallel()
	large := strings.Repeat("0123456789abcdef", 10<<20/16)
	s := over(t, say(large))
	for range 3 {
		if _, text, err := s.post(t, chat, question); err != nil || text != large {
			t.Fatalf("%d bytes, %v", len(text), err)
		}
	}
	for _, c := range s.ended(t) {
		if string(c.Response) != large || c.Truncated != 0 {
			t.Errorf("%d bytes kept, %d not", len(c.Response), c.Truncated)
		}
	}
	if used := s.gateway.memory.Used(); used != 0 {
		t.Errorf("%d bytes are held when all has ended", used)
	}
}

// TestCutEvidence checks that a response is forwarded whole if there is no space to record it.
func TestCutEvidence(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 1<<20)
	s := over(t, say(large))
	s.gateway.memory = bounded.NewBudget(300 << 10)
	if _, text, err := s.post(t, chat, question); err != nil || text != large {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	if c := s.only(t); int64(len(c.Response))+c.Truncated != int64(len(large)) || c.Truncated == 0 {
		t.Errorf("%d bytes kept, %d not", len(c.Response), c.Truncated)
	}
}

// TestAgentLeaves checks that what an agent does not wait for is broken off at the
// provider too.
func TestAgentLeaves(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	s := over(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		_, _ = io.WriteString(w, "data: ")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	})
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+chat, strings.NewReader(question))
	answer, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadFull(answer.Body, make([]byte, 6))
	_ = answer.Body.Close()
	<-gone
	if c := s.only(t); c.Outcome != evidence.ModelCancelled || string(c.Response) != "data: " {
		t.Errorf("%s, %q, %s", c.Outcome, c.Response, c.Error)
	}
}

// TestAgentLeavesWhatIsComplete checks that an answer is whole where its last event has come,
// whether or not the agent waits for the stream's end: its tokens count and cost. Without
// the count it is not.
func TestAgentLeavesWhatIsComplete(t *testing.T) {
	t.Parallel()
	const stop = "data: {\"choices\":[{\"delta\":{\"content\":\"hello\"},\"finish_reason\":\"stop\"}]}\n\n"
	for sent, want := range map[string]string{
		stop + "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":3}}\n\n": evidence.ModelOK,
		stop: evidence.ModelCancelled,
		"data: {\"choices\":[{\"delta\":{\"content\":\"hel\"}}],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":1}}\n\n": evidence.ModelCancelled,
	} {
		gone := make(chan struct{})
		s := over(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, sent)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			close(gone)
		})
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+chat, strings.NewReader(question))
		answer, err := s.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadFull(answer.Body, make([]byte, len(sent)))
		_ = answer.Body.Close()
		<-gone
		c := s.only(t)
		if c.Outcome != want || want == evidence.ModelOK && (c.Usage == nil || c.Usage.Input != 11 || c.Usage.Output != 3 || c.Error != "") {
			t.Errorf("%s: %s, %+v, %s", sent, c.Outcome, c.Usage, c.Error)
		}
	}
}

// TestClose checks that a closed gateway has ended and recorded its calls, and takes none.
func TestClose(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	s := over(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		close(asked)
		<-r.Context().Done()
	})
	ended := make(chan error)
	go func() {
		_, _, err := s.post(t, chat, question)
		ended <- err
	}()
	<-asked
	if c := s.only(t); c.Outcome != evidence.ModelCancelled {
		t.Errorf("%s, %s", c.Outcome, c.Error)
	}
	if err := <-ended; err == nil {
		t.Error("the agent got an answer")
	}
	answer, _, err := s.post(t, chat, question)
	if err != nil || answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%v, %v", answer, err)
	}
}
