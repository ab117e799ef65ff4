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

// Provider is where models are asked.
type Provider struct {
	Name    string   // the first segment of its paths, as package eval has validated it
	Kind    string   // API, one of eval.ModelKinds; empty for a script, which has them all
	BaseURL *url.URL // what its paths are below
	// Player answers in its place; may be nil. A request that it leaves to the provider goes on.
	Player *recorded.Player
	// Fault returns the fault to make of the next turn, or nil. It may be nil.
	Fault func(method, path string, body []byte) *cassette.Fault
	// Transport sends it requests; required without a player.
	Transport http.RoundTripper
	Key       string            // empty for none
	KeyEnv    string            // the variable that the key is from, for messages
	Headers   map[string]string // replace those of the agent
	// Secrets are the parts of Headers to hide.
	Secrets []string
	Prices  map[string]eval.Price // by model
	// Silence is how long it may say nothing, before an answer and within it; default
	// 10 minutes.
	Silence time.Duration
}

// isPlayed reports whether the provider itself is never asked.
func (p Provider) isPlayed() bool { return p.Player != nil && !p.Player.IsLive() }

// defaultSilence is long, since a model that thinks may say nothing meanwhile.
const defaultSilence = 10 * time.Minute

// InProcess returns a transport on which h answers, without any port: each request has a pipe of
// its own, which ends with the answer.
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

// api is what providers of a kind have in common.
type api struct {
	header, scheme string       // the header with the key, and the prefix of the key
	models         string       // path of the list of models
	errors         dialect.Name // in which errors are written, if a request is in no dialect
	parts          []part       // that agents may ask for
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

// checkTimeout bounds a request of our own to a provider.
const checkTimeout = 15 * time.Second

// Classes of a provider's failures. An agent that provokes one error is not excused by another.
const (
	downKey    = "refuses its key"
	downServer = "does not answer"
	downStream = "breaks off"
)

// classOf returns the class of an answer's status, or of an error in its place; empty if the
// provider can be asked.
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

// refused remembers that a provider refuses its key, and reports whether that is new.
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

// lastTurn remembers how a provider did with the last turn that was asked of it, and whether it broke
// its answer off.
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
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10) // so that the connection can be used again
	return answer.StatusCode, nil
}
