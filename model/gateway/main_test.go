package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/memtest"
)

func TestMain(m *testing.M) {
	memtest.Main(roles())
	goleak.VerifyTestMain(m)
}

// key is that of the provider under test; no agent may ever see it.
const key = "sk-canary-7f3e9d52c1"

// record keeps what a gateway records.
type record struct {
	mu     sync.Mutex
	calls  []evidence.ModelCall // guarded by mu
	events []evidence.Event     // guarded by mu
}

func (r *record) Clean(w io.Writer, doc []byte) error {
	_, err := w.Write(doc)
	return err
}

func (r *record) ModelCall(c evidence.ModelCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.Request, c.Response = slices.Clone(c.Request), slices.Clone(c.Response)
	r.calls = append(r.calls, c)
}

func (r *record) Event(e evidence.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (*record) Now() time.Time { return time.Now() }

// kinds are those of the events.
func (r *record) kinds() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, e := range r.events {
		all = append(all, e.Kind)
	}
	return all
}

// stand is a gateway with one provider, and an agent's client.
type stand struct {
	*record
	gateway  *Gateway
	url      string // of the gateway
	provider *httptest.Server
	client   *http.Client
}

type setting func(*Provider, *eval.ModelLimits)

// over starts a gateway with a provider served by h, until the test ends.
func over(t testing.TB, h http.HandlerFunc, settings ...setting) *stand {
	t.Helper()
	s := &stand{record: &record{}, provider: httptest.NewServer(h)}
	base, err := url.Parse(s.provider.URL + "/base/v1")
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 256}
	p, limits := Provider{Name: "p", Kind: eval.KindOpenAI, BaseURL: base, Transport: transport, Key: key, KeyEnv: "P_KEY"}, eval.ModelLimits{}
	for _, set := range settings {
		set(&p, &limits)
	}
	s.gateway = New(s.record, limits, p)
	front := httptest.NewServer(s.gateway)
	s.url = front.URL
	agents := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 256}
	s.client = &http.Client{Transport: agents}
	t.Cleanup(func() {
		agents.CloseIdleConnections()
		s.gateway.Close()
		front.Close()
		transport.CloseIdleConnections()
		s.provider.Close()
	})
	return s
}

// ended closes the gateway and returns the calls by their numbers.
func (s *stand) ended(t testing.TB) []evidence.ModelCall {
	t.Helper()
	s.gateway.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(s.calls, func(a, b evidence.ModelCall) int { return a.Seq - b.Seq })
	for i, c := range s.calls {
		if c.Seq != i+1 {
			t.Errorf("call %d has the number %d", i+1, c.Seq)
		}
	}
	return s.calls
}

// only is the one call that there was.
func (s *stand) only(t testing.TB) evidence.ModelCall {
	t.Helper()
	calls := s.ended(t)
	if len(calls) != 1 {
		t.Fatalf("%d calls", len(calls))
	}
	return calls[0]
}

const chat = "/p/chat/completions"

// post asks as an agent does, and returns the answer with what its body held up to its
// end or to err.
func (s *stand) post(t testing.TB, path, body string) (answer *http.Response, got string, err error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer waza")
	r.Header.Set("Accept-Encoding", "gzip, br")
	answer, err = s.client.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	all, err := io.ReadAll(answer.Body)
	return answer, string(all), err
}

// say answers with a text.
func say(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
	}
}

const (
	question = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	answered = `{"id":"c","model":"m-1","choices":[{"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":40}}}`
)
