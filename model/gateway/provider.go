package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/internal/web"
	"github.com/waza-isolate/waza/model/dialect"
	"github.com/waza-isolate/waza/model/recorded"
)

// Provider is a provider of models.
type Provider struct {
	Name    string   // the first path segment of its requests; validated by package eval
	Kind    string   // API, one of eval.ModelKinds; empty for a script, which supports all
	BaseURL *url.URL // URL that its paths are relative to
	// Player answers in place of the provider; may be nil. Requests that it does not answer are sent
	// to the provider.
	Player *recorded.Player
	// Fault returns the fault for the next turn, or nil. May be nil.
	Fault func(method, path string, body []byte) *cassette.Fault
	// Transport sends requests to the provider; required without a player.
	Transport http.RoundTripper
	Key       string            // empty for none
	KeyEnv    string            // variable that contains the key, for messages
	Headers   map[string]string // replace those of the agent
	// Secrets are the parts of Headers to hide.
	Secrets []string
	Prices  map[string]eval.Price // by model
	// Silence is how long the provider may send nothing, before and within a response; default 10
	// minutes.
	Silence time.Duration
}

// isPlayed reports whether the provider itself is never asked.
func (p Provider) isPlayed() bool { return p.Player != nil && !p.Player.IsLive() }

// defaultSilence is long, since a model may think for a long time without output.
const defaultSilence = 10 * time.Minute

// InProcess returns a transport to the handler h, without a port: each request has its own pipe,
// which ends with the response.
func InProcess(h http.Handler) http.RoundTripper {
	server := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}
	return &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			web.Serve(server, far)
			return near, nil
		},
		DisableKeepAlives:  true,
		DisableCompression: true,
	}
}

// api is the API of a kind of providers.
type api struct {
	header, scheme string       // the header with the key, and the prefix of the key
	models         string       // path of the list of models
	errors         dialect.Name // format of errors for requests in no known dialect
	parts          []part       // parts that agents may use
}

// apiOf returns the API of a kind of providers.
func apiOf(kind string) api {
	switch kind {
	case eval.KindAnthropic:
		return api{"X-Api-Key", "", "v1/models", dialect.Messages, anthropic}
	case eval.KindGoogle:
		return api{"X-Goog-Api-Key", "", "v1beta/models", dialect.Generate, google}
	case eval.KindAzure:
		return api{"Api-Key", "", "models", dialect.Chat, azure}
	case eval.KindOpenAI:
		return api{"Authorization", "Bearer ", "models", dialect.Chat, openAI}
	}
	return api{"Authorization", "Bearer ", "models", dialect.Chat, slices.Concat(openAI, anthropic, google)}
}

// authorize adds the provider's key and headers to h.
func (p Provider) authorize(h http.Header) {
	if p.Key != "" {
		api := apiOf(p.Kind)
		h.Set(api.header, api.scheme+p.Key)
	}
	for name, value := range p.Headers {
		h.Set(name, value)
	}
}

// refusesKey returns advice for status 401 or 403, or "" for others.
func (p Provider) refusesKey(status int) string {
	if status != http.StatusUnauthorized && status != http.StatusForbidden {
		return ""
	}
	if p.KeyEnv == "" {
		return fmt.Sprintf("the model provider %q answered %d and has no key; name the variable that holds one in config.models.%[1]s.api_key_env", p.Name, status)
	}
	return fmt.Sprintf("the model provider %q answered %d to its key; set the environment variable %s to one that is valid there", p.Name, status, p.KeyEnv)
}

// checkTimeout bounds a request of the gateway itself to a provider.
const checkTimeout = 15 * time.Second

// Classes of a provider's failures. A failure of one class does not excuse an agent that provoked
// an error of another.
const (
	downKey    = "refuses its key"
	downServer = "does not answer"
	downStream = "breaks off"
)

// classOf returns the failure class of a status, or of an error without a status; "" if the
// provider is available.
func classOf(status int, err error) string {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return downKey
	case err != nil, status >= 500:
		return downServer
	}
	return ""
}

// health holds the observed failures of providers.
type health struct {
	mu      sync.Mutex
	refuses map[string]string // what to do about providers that refused their keys; guarded by mu
	down    map[string]string // failure classes of providers whose last turn failed; guarded by mu
}

// refused records that a provider rejects its key, and reports whether that is new.
func (h *health) refused(provider, why string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, known := h.refuses[provider]
	h.refuses[provider] = why
	return !known
}

// refusals returns, for each provider that rejected its key, how to fix that.
func (h *health) refusals() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, name := range sortedKeys(h.refuses) {
		all = append(all, h.refuses[name])
	}
	return all
}

// lastTurn records the result of the last turn of a provider, and whether the provider broke its
// response off.
func (h *health) lastTurn(c evidence.ModelCall, brokenOff bool) {
	var err error
	switch {
	case !c.IsTurn(), c.Fault != "" && c.Fault != evidence.FaultDelay, c.Outcome == evidence.ModelCancelled, c.Outcome == evidence.ModelBudget:
		return
	case c.Outcome == evidence.ModelTransport:
		err = errors.New(c.Error)
	}
	class := classOf(c.Status, err)
	if brokenOff {
		class = downStream
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if delete(h.down, c.Provider); class != "" {
		h.down[c.Provider] = class
	}
}

// failed returns the failure classes of the providers whose last turn failed, by name.
func (h *health) failed() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.down)
}

// check requests the list of models and returns the status.
func (p Provider) check(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.BaseURL.JoinPath(apiOf(p.Kind).models).String(), nil)
	if err != nil {
		return 0, err
	}
	p.authorize(r.Header)
	answer, err := p.Transport.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10) // so that the connection can be reused
	return answer.StatusCode, nil
}
