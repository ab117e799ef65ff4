// Package gateway is the agent's HTTP gateway to models, at http://model. It adds keys,
// forwards bytes, records, and enforces limits. A request for /PROVIDER/REST is sent to
// REST below that provider's base URL, with the provider's key instead of the agent's
// credentials, and the response is returned unchanged. Each request is recorded with its
// whole response.
//
// Only known parts of an API, query parameters and headers are forwarded. Bodies are not
// re-encoded; a copy of them is parsed. The secrets of a provider are hidden from the agent:
// wherever a response contains them, they are replaced by the same number of bytes.
//
// The gateway neither follows redirects nor retries; agents do that. It does not know about
// trials or where it is served.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/web"
	"github.com/waza-isolate/waza/model/dialect"
)

// Recorder records the requests of a gateway. [evidence.Recorder] implements it.
type Recorder interface {
	ModelCall(c evidence.ModelCall)
	Event(e evidence.Event)
	Now() time.Time
	// Clean writes a text or JSON document as the recorder stores it.
	Clean(w io.Writer, doc []byte) error
}

// Limits of memory and records.
const (
	maxRequest   = dialect.MaxBody // bytes of a request; a larger one is refused
	maxAnswer    = 256 << 20       // bytes of an answer; a larger one is broken off
	maxKept      = dialect.MaxBody // bytes of an answer that are recorded
	maxMemory    = 256 << 20       // bytes of requests and responses in memory
	maxKeptInAll = 1 << 30         // bytes of both in a trial; requests after that are refused, and after maxMemory more the agent is stopped
)

// maxNotes is the maximum number of events recorded about requests that are not forwarded.
const maxNotes = 200

// Gateway is the HTTP handler for the models of one trial.
type Gateway struct {
	rec       Recorder
	providers map[string]Provider
	secrets   *secret.Set // of all providers
	allowed   *allowance
	memory    *bounded.Budget
	health    *health
	notes     atomic.Int64
	exhausted chan struct{}
	exhaust   func()     // closes it
	decoding  sync.Mutex // held while a body is decoded, which takes many times its size in memory

	ctx    context.Context // of every call
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	closed bool           // guarded by mu
	calls  sync.WaitGroup // Add guarded by mu
	seq    int            // guarded by mu
}

var errClosed = errors.New("the trial is over")

// New returns a gateway to providers with different names. Close must be called.
func New(rec Recorder, limits eval.ModelLimits, providers ...Provider) *Gateway {
	g := &Gateway{
		rec: rec, providers: make(map[string]Provider, len(providers)), secrets: &secret.Set{},
		allowed: newAllowance(limits), memory: bounded.NewBudget(maxMemory), exhausted: make(chan struct{}),
		health: &health{refuses: map[string]string{}, down: map[string]string{}},
	}
	g.exhaust = sync.OnceFunc(func() { close(g.exhausted) })
	for _, p := range providers {
		if p.Silence == 0 {
			p.Silence = defaultSilence
		}
		g.providers[p.Name] = p
		for _, secret := range append([]string{p.Key}, p.Secrets...) {
			g.secrets.Add(secret)
		}
	}
	g.ctx, g.cancel = context.WithCancelCause(context.Background())
	return g
}

// Close ends running calls, and returns when all are recorded and no connection is left.
func (g *Gateway) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.cancel(errClosed)
	g.calls.Wait()
	for _, p := range g.providers {
		if !p.isPlayed() {
			(&http.Client{Transport: p.Transport}).CloseIdleConnections()
		}
	}
}

// Overspent returns the first limit that the agent exceeded, as a sentence, or "".
func (g *Gateway) Overspent() string { return g.allowed.overspent() }

// Exhausted returns a channel that is closed once the agent was refused so often that it must be
// stopped. From then on it gets no answers.
func (g *Gateway) Exhausted() <-chan struct{} { return g.exhausted }

// Refused returns, for each provider that rejected its key, how to fix that.
func (g *Gateway) Refused() []string { return g.health.refusals() }

// Down checks the providers whose last response to the agent was a failure, by requesting their
// list of models, since an agent may provoke errors. It returns an error with advice for the first
// provider that fails in the same way. A response that the provider broke off needs no such check:
// one that the agent broke off does not count. A provider whose answers are played is never down.
func (g *Gateway) Down(ctx context.Context) error {
	failed := g.health.failed()
	for _, name := range sortedKeys(failed) {
		p := g.providers[name]
		if p.isPlayed() {
			continue
		}
		if failed[name] == downStream {
			return fmt.Errorf("model provider %q broke off its last answer to the agent; run again later, or name another provider in config.model", name)
		}
		status, err := p.check(ctx)
		if classOf(status, err) != failed[name] {
			continue
		}
		switch {
		case failed[name] == downKey:
			return errors.New(p.refusesKey(status))
		case err != nil:
			return fmt.Errorf("model provider %q cannot be reached, not even by waza itself: %s; check config.models.%s.base_url and the network", name, g.secrets.String(err.Error()), name)
		}
		return fmt.Errorf("model provider %q answers %d, also to waza itself; run again later, or name another provider in config.model", name, status)
	}
	return nil
}

// begin reports whether the gateway still accepts requests. If so, the caller must call
// g.calls.Done at the end of the request.
func (g *Gateway) begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.calls.Add(1)
	return true
}

func (g *Gateway) next() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seq++
	return g.seq
}

// note records a request that is not forwarded.
func (g *Gateway) note(what string) {
	if g.notes.Add(1) <= maxNotes {
		g.rec.Event(evidence.Event{Kind: "model", Where: "agent", Message: what})
	}
}

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to, err := routeOf(r.URL)
	if err != nil {
		g.decline(w, r, badRequest(err.Error()), dialect.Chat)
		return
	}
	p, ok := g.providers[to.provider]
	if !ok {
		missing := badRequest(fmt.Sprintf("there is no model provider %q here; the path begins with one of %q", to.provider, sortedKeys(g.providers)))
		missing.status = http.StatusNotFound
		g.decline(w, r, missing, dialect.Chat)
		return
	}
	asked, ok := p.partOf(r.Method, to)
	shape := cmp.Or(asked.turn, apiOf(p.Kind).errors)
	if !ok {
		other := badRequest(r.Method + " " + to.path() + " is not passed on: only models' turns, lists of models and counts of tokens are")
		other.status = http.StatusNotFound
		g.decline(w, r, other, shape)
		return
	}
	if !g.begin() {
		unreachable(http.StatusServiceUnavailable, errClosed.Error()).write(w, shape)
		return
	}
	defer g.calls.Done()
	control := http.NewResponseController(w)
	defer context.AfterFunc(g.ctx, func() { cutOff(control) })()
	if g.allowed.exhausted() {
		g.exhaust()
		panic(http.ErrAbortHandler)
	}
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	body, failed := g.read(r)
	_ = control.SetReadDeadline(time.Time{})
	defer body.Release()
	if failed != nil {
		g.decline(w, r, *failed, shape)
		return
	}
	asking, err := g.asking(r.Header, body.Bytes, asked)
	if err != nil {
		g.decline(w, r, badRequest(err.Error()), shape)
		return
	}
	c := g.newCall(p, to, r.Method, body.Bytes, shape, asking)
	c.serve(w, r)
}

// asking reads what a request asks a provider to spend; nil if it is not for a model's turn. It
// rejects requests whose cost could not be seen.
func (g *Gateway) asking(header http.Header, body []byte, of part) (*dialect.Asking, error) {
	switch {
	case of.turn == "":
		return nil, nil
	case !defence.CountedAsking:
		return &dialect.Asking{Answers: 1}, nil
	case web.IsEncoded(header):
		return nil, errors.New("the body is compressed; send it as it is")
	}
	asking, err := dialect.ReadAsking(of.turn, body)
	if strings.Contains(strings.Join(header.Values("Anthropic-Beta"), ","), "context-1m") {
		asking.Unpriced = "the header Anthropic-Beta: context-1m"
	}
	if err == nil && g.allowed.limits.Cost > 0 && asking.Unpriced != "" {
		err = fmt.Errorf("cost is limited here, and what %s asks for has a price that no count of tokens shows; leave it out", asking.Unpriced)
	}
	return &asking, err
}

// bodyTimeout limits how long the agent may take to send a request, and to receive the last
// part of a response.
const bodyTimeout = 2 * time.Minute

// cutOff ends reads and writes on the agent's connection.
func cutOff(c *http.ResponseController) {
	_ = c.SetReadDeadline(time.Unix(1, 0))
	_ = c.SetWriteDeadline(time.Unix(1, 0))
}

// decline answers a request that is not forwarded to a provider.
func (g *Gateway) decline(w http.ResponseWriter, r *http.Request, why refusal, shape dialect.Name) {
	g.note(fmt.Sprintf("%.16s %.512q was refused: %s", r.Method, r.RequestURI, why.message))
	why.write(w, shape)
}

// read reads a request's whole body, within the gateway's memory limit. The caller must release it.
func (g *Gateway) read(r *http.Request) (*bounded.Buffer, *refusal) {
	body := &bounded.Buffer{Max: maxRequest, Share: g.memory}
	var why refusal
	switch err := body.ReadAll(r.Body, r.ContentLength); {
	case err == nil:
		return body, nil
	case errors.Is(err, bounded.ErrNoMemory):
		why = unreachable(http.StatusServiceUnavailable, "too many large requests to models at once")
	case errors.Is(err, bounded.ErrTooLong):
		why = tooLarge(fmt.Sprintf("the request has more than %d bytes", maxRequest))
	default:
		why = badRequest("the request did not come whole")
	}
	return body, &why
}
