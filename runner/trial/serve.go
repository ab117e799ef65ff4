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
	"sync"
	"time"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/proxy"
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

// recorder takes what the agent says to servers and models, and hears of them.
type recorder interface {
	proxy.Recorder
	gateway.Recorder
}

// endpoints are what answers the agent, where it finds its servers, its models and what is
// outside.
type endpoints struct {
	*recording
	servers  []proxy.Server
	proxy    *proxy.Proxy  // nil until it is opened, and once it was drained
	models   *modelGateway // nil where no model is asked, too
	commands *commands
	outlet   *egress.Proxy // nil where the agent may reach nothing outside
	serving  sync.WaitGroup
}

// open puts a proxy where the agent finds its servers, and a gateway where it finds its
// models, and returns where the servers are, by name. What crosses them goes to rec. They
// last until drain.
func (e *endpoints) open(ctx context.Context, sb sandbox.Sandbox, rec recorder, models *plan.Models) (found map[string]string, err error) {
	if e.models, err = openGateway(models, rec); err != nil {
		return nil, err
	}
	proxy, err := proxy.New(rec, proxy.Limits{Calls: e.plan.Agent.MaxCalls, Share: e.shares.Agent}, e.servers...)
	if err != nil {
		return nil, err
	}
	e.proxy = proxy
	places, err := sb.Listen(ctx)
	if err != nil {
		return nil, err
	}
	for _, place := range places {
		handler := e.at(place)
		e.serving.Go(func() {
			err := proxy.Serve(context.WithoutCancel(ctx), place, handler)
			if err != nil && !errors.Is(err, net.ErrClosed) {
				rec.Event(evidence.Event{Kind: "proxy", Message: err.Error()})
			}
		})
	}
	return e.tellPlaces(ctx, sb, places)
}

// only is the one server that can be meant at a place, whatever Host a request
// names; empty where there are several.
func (e *endpoints) only(place sandbox.Endpoint) string {
	if len(e.servers) == 1 {
		return e.servers[0].Name
	}
	return place.Server
}

// tellPlaces says where the agent finds servers, and writes mcp.json again where that
// is not under their names.
func (e *endpoints) tellPlaces(ctx context.Context, sb sandbox.Sandbox, places []sandbox.Endpoint) (map[string]string, error) {
	hosts := make(map[string]string, len(e.servers))
	for _, server := range e.servers {
		hosts[server.Name] = server.Host
	}
	moved := false
	for _, place := range places {
		if place.Host != "" && place.Server != sandbox.ModelHost {
			hosts[place.Server], moved = place.Host, true
		}
	}
	if !moved {
		return hosts, nil
	}
	return hosts, put(ctx, sb, sandbox.Agent, "/", []plan.File{plan.NewFile(sandbox.MCPConfigPath, string(mcpconfig.Render(hosts)))})
}

// drain lets every server end and every answer be recorded.
func (e *endpoints) drain(ctx context.Context) error {
	e.closeOutlet()
	e.closeModels()
	defer func() { e.models = nil }()
	if e.proxy == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	err := e.proxy.Close(ctx)
	e.serving.Wait()
	if why := e.overspent(); why != "" && e.record.Class == "" && e.record.Ended.IsZero() { // with its last breath
		e.blame(evidence.ClassAgentError, evidence.ReasonBudget, why)
	}
	e.proxy = nil
	return err
}

// overspent says how the agent came to want more than it may, of tools, of models or of
// evidence.
func (e *endpoints) overspent() string {
	var all []string
	if e.proxy != nil {
		all = append(all, e.proxy.Overspent())
	}
	if e.models != nil {
		all = append(all, e.models.Overspent())
	}
	return cmp.Or(strings.Trim(strings.Join(all, "; "), "; "), e.overShare())
}

// exhausted is closed once the agent was refused models so often that it is to be ended;
// nil, which never is, where it has none.
func (e *endpoints) exhausted() <-chan struct{} {
	if e.models == nil {
		return nil
	}
	return e.models.Exhausted()
}

// at is who answers at a place: models under their host's name, and servers else.
func (e *endpoints) at(place sandbox.Endpoint) http.Handler {
	servers := e.canaries.requests(e.only(place), e.proxy.Handler(e.only(place)))
	if !e.plan.AsksRunner() {
		return servers
	}
	gateway := e.models
	models := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == cmdmock.Path && len(e.plan.Commands) > 0:
			e.commands.ServeHTTP(w, r)
		case gateway == nil:
			http.NotFound(w, r)
		default:
			e.acted.Store(true)
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
func (e *endpoints) closeModels() {
	e.models.close()
	if e.models == nil || !e.record.Ended.IsZero() {
		return
	}
	for _, why := range e.models.Refused() {
		e.remark(why)
	}
}

// ModelCall implements gateway.Recorder.
func (nobody) ModelCall(evidence.ModelCall) {}

// Now implements gateway.Recorder.
func (nobody) Now() time.Time { return time.Now() }

// openOutlet lets the programs of a container reach what the eval allows; nil where that is
// nothing. It lasts until its Close.
func openOutlet(ctx context.Context, sb sandbox.Sandbox, container string, allowed []mcpconfig.Destination, limits egress.Limits, rec outsideRecorder) (*egress.Proxy, error) {
	if len(allowed) == 0 {
		return nil, nil
	}
	outlet, ok := sb.(sandbox.Outlet)
	if !ok {
		return nil, errors.New("egress cannot be had of this backend; run with --isolate")
	}
	forwarder, err := egress.New(egress.Options{
		Container: container, Allowed: allowed, Limits: limits, Record: rec.Event, Named: rec.Named, Tap: rec.Tap,
	})
	if err != nil {
		return nil, err
	}
	for _, place := range egress.Places(allowed) {
		ln, err := outlet.ListenAt(ctx, container, place.At)
		if err != nil {
			forwarder.Close()
			return nil, fmt.Errorf("egress at %s of its container: %w", place.At, err)
		}
		forwarder.Serve(ln, place)
	}
	return forwarder, nil
}

// openOutlet lets the agent reach what the eval allows it, until drain.
func (e *endpoints) openOutlet(ctx context.Context, sb sandbox.Sandbox) (err error) {
	e.outlet, err = openOutlet(ctx, sb, sandbox.Agent, e.plan.Agent.Egress, e.plan.EgressLimits, e.observer())
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	return nil
}

// closeOutlet ends what the agent has under way outside. It may be called twice.
func (e *endpoints) closeOutlet() {
	if e.outlet != nil {
		e.outlet.Close()
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
