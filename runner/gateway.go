package runner

import (
	"cmp"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
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
