package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/model/gateway"
	"github.com/waza-isolate/waza/runner/cmdmock"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// maxModelConns bounds connections to one provider at once, in a trial.
const maxModelConns = 256

// modelGateway is what the agent finds at [sandbox.ModelHost].
type modelGateway struct {
	*gateway.Gateway
	idle []func() // let go of connections that are kept
}

// openGateway is the gateway of a trial; nil where its agent asks no models.
func openGateway(m *plan.Models, rec gateway.Recorder) (*modelGateway, error) {
	if m == nil {
		return nil, nil
	}
	g := &modelGateway{}
	var providers []gateway.Provider
	for _, p := range m.Providers {
		providers = append(providers, g.provider(p, rec))
	}
	var err error
	if g.Gateway, err = gateway.New(rec, m.Limits, providers...); err != nil {
		return nil, err
	}
	return g, nil
}

func (g *modelGateway) provider(p plan.Provider, rec gateway.Recorder) gateway.Provider {
	a := p.Access
	out := gateway.Provider{
		Name: p.Name, Kind: p.Kind, BaseURL: a.URL, Prices: p.Prices, Silence: a.Silence,
		Key: a.Key, KeyEnv: p.APIKeyEnv, Headers: a.Headers, Secrets: a.Secrets,
	}
	if a.Script != nil {
		out.BaseURL, out.Transport = &url.URL{Scheme: "http", Host: sandbox.ModelHost}, gateway.InProcess(a.Script())
		return out
	}
	transport := &http.Transport{
		DialContext:            tellingDial(&net.Dialer{Timeout: connectTimeout}, rec, "provider", p.Name, a.URL),
		Proxy:                  func(r *http.Request) (*url.URL, error) { return a.Proxy(r.URL) },
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    connectTimeout,
		IdleConnTimeout:        idleConnection,
		DisableCompression:     true,
		MaxConnsPerHost:        maxModelConns,
		MaxIdleConnsPerHost:    maxModelConns,
		MaxResponseHeaderBytes: maxResponseHeader,
	}
	g.idle = append(g.idle, transport.CloseIdleConnections)
	out.Transport = transport
	return out
}

// close ends the calls under way. A nil gateway has none.
func (g *modelGateway) close() {
	if g == nil {
		return
	}
	g.Close()
	for _, let := range g.idle {
		let()
	}
}

// overspent says how the agent came to want more than it may, of tools, of models or of
// evidence.
func (tr *trialRun) overspent() string {
	var all []string
	if tr.proxy != nil {
		all = append(all, tr.proxy.Overspent())
	}
	if tr.models != nil {
		all = append(all, tr.models.Overspent())
	}
	return cmp.Or(strings.Trim(strings.Join(all, "; "), "; "), tr.overShare())
}

// exhausted is closed once the agent was refused models so often that it is to be ended;
// nil, which never is, where it has none.
func (tr *trialRun) exhausted() <-chan struct{} {
	if tr.models == nil {
		return nil
	}
	return tr.models.Exhausted()
}

// at is who answers at a place: models under their host's name, and servers else.
func (tr *trialRun) at(place sandbox.Endpoint) http.Handler {
	servers := tr.lookout.requests(tr.only(place), tr.proxy.Handler(tr.only(place)))
	if !tr.plan.AsksRunner() {
		return servers
	}
	gateway := tr.models
	models := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == cmdmock.Path && len(tr.plan.Commands) > 0:
			tr.playCommand(w, r)
		case gateway == nil:
			http.NotFound(w, r)
		default:
			tr.acted.Store(true)
			gateway.ServeHTTP(w, r)
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case place.Server == sandbox.ModelHost:
			atAddress(place.Host, models).ServeHTTP(w, r)
		case place.Server == "" && isModelHost(r.Host):
			models.ServeHTTP(w, r)
		default:
			servers.ServeHTTP(w, r)
		}
	})
}

func isModelHost(host string) bool {
	return strings.EqualFold(strings.TrimSuffix(host, ":80"), sandbox.ModelHost)
}

// atAddress lets in who asks for an address of this machine's by itself: no page that a
// browser has open may spend a key.
func atAddress(addr string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != addr || r.Header.Get("Origin") != "" {
			http.Error(w, "Models are at http://"+addr+", and not for browsers.", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// closeModels ends what the agent asks of models, and tells of keys that were refused.
func (tr *trialRun) closeModels() {
	tr.models.close()
	if tr.models == nil || !tr.record.Ended.IsZero() {
		return
	}
	for _, why := range tr.models.Refused() {
		tr.remark(why)
	}
}

// remark adds to what a person is told of the trial.
func (tr *trialRun) remark(what string) {
	if tr.record.Message != "" {
		what = tr.record.Message + "; " + what
	}
	tr.record.Message = what
}

// ModelCall implements gateway.Recorder.
func (nobody) ModelCall(evidence.ModelCall) {}

// Now implements gateway.Recorder.
func (nobody) Now() time.Time { return time.Now() }

// openOutlet lets the programs of a box reach what the eval allows; nil where that is
// nothing. It lasts until its Close.
func openOutlet(ctx context.Context, sb sandbox.Sandbox, box string, allowed []mcpconfig.Destination, limits egress.Limits, rec overseer) (*egress.Carrier, error) {
	if len(allowed) == 0 {
		return nil, nil
	}
	outlet, ok := sb.(sandbox.Outlet)
	if !ok {
		return nil, errors.New("egress cannot be had of this backend; run with --isolate")
	}
	carrier, err := egress.New(egress.Options{
		Box: box, Allowed: allowed, Limits: limits, Record: rec.Event, Named: rec.Named, Tap: rec.Tap,
	})
	if err != nil {
		return nil, err
	}
	for _, place := range egress.Places(allowed) {
		ln, err := outlet.ListenAt(ctx, box, place.At)
		if err != nil {
			carrier.Close()
			return nil, fmt.Errorf("egress at %s of its container: %w", place.At, err)
		}
		carrier.Serve(ln, place)
	}
	return carrier, nil
}

// openAgentOutlet lets the agent reach what the eval allows it, until drain.
func (tr *trialRun) openAgentOutlet(ctx context.Context) (err error) {
	tr.outlet, err = openOutlet(ctx, tr.sandbox, sandbox.Agent, tr.plan.Agent.Egress, tr.plan.EgressLimits, tr.observer())
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	return nil
}

// closeAgentOutlet ends what the agent has under way outside. It may be called twice.
func (tr *trialRun) closeAgentOutlet() {
	if tr.outlet != nil {
		tr.outlet.Close()
	}
}

// describeEgress names what may be reached; empty for nothing.
func describeEgress(allowed []mcpconfig.Destination) string {
	texts := make([]string, len(allowed))
	for i, d := range allowed {
		texts[i] = d.String()
	}
	return strings.Join(texts, ", ")
}
