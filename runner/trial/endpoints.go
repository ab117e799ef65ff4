package trial

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
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

// openGateway returns what the agent finds at [sandbox.ModelHost]; nil if it asks no models.
func openGateway(m *plan.Models, rec gateway.Recorder) (*gateway.Gateway, error) {
	if m == nil {
		return nil, nil
	}
	var providers []gateway.Provider
	for _, p := range m.Providers {
		providers = append(providers, newProvider(p, rec))
	}
	return gateway.New(rec, m.Limits, providers...)
}

func newProvider(p plan.Provider, rec gateway.Recorder) gateway.Provider {
	a := p.Access
	out := gateway.Provider{
		Name: p.Name, Kind: p.Kind, BaseURL: a.URL, Prices: p.Prices, Silence: a.Silence,
		Key: a.Key, KeyEnv: p.APIKeyEnv, Headers: a.Headers, Secrets: a.Secrets,
	}
	if a.Script != nil {
		out.BaseURL, out.Transport = &url.URL{Scheme: "http", Host: sandbox.ModelHost}, gateway.InProcess(a.Script())
		return out
	}
	transport := newTransport(recordingDial(&net.Dialer{Timeout: connectTimeout}, rec, "provider", p.Name, a.URL), idleConnection)
	transport.Proxy = func(r *http.Request) (*url.URL, error) { return a.Proxy(r.URL) }
	out.Transport = transport
	return out
}

// recorder takes what crosses between the agent, its servers and its models.
type recorder interface {
	proxy.Recorder
	gateway.Recorder
}

// endpoints are what answers the agent, where it finds its servers, its models and what is
// outside.
type endpoints struct {
	*recording
	servers  []proxy.Server
	proxy    *proxy.Proxy
	models   *gateway.Gateway // nil where no model is asked
	commands *commands
	found    map[string]string // where the agent finds servers, by name
	outlet   *egress.Proxy     // nil where the agent may reach nothing outside
	serving  sync.WaitGroup
	draining sync.Once
}

// openEndpoints puts a proxy where the agent finds its servers, a gateway where it finds its
// models, and a way out to what it may reach outside. What crosses the first two goes to rec.
// They last until drain.
func openEndpoints(ctx context.Context, s *stage, rec recorder, models *plan.Models, allowed []mcpconfig.Destination) (*endpoints, error) {
	e := &endpoints{
		recording: s.recording,
		commands:  &commands{recording: s.recording, workspace: sandbox.LayoutOf(s.sandbox, sandbox.Agent).Workspace},
	}
	for _, up := range s.servers.up {
		e.servers = append(e.servers, up.proxied)
	}
	var err error
	if e.proxy, err = proxy.New(rec, proxy.Limits{Calls: e.plan.Agent.MaxCalls, Share: e.shares.Agent}, e.servers...); err != nil {
		return nil, err
	}
	if e.models, err = openGateway(models, rec); err == nil {
		err = e.open(ctx, s.sandbox, rec, allowed)
	}
	if err != nil {
		return nil, errors.Join(err, e.drain(ctx))
	}
	return e, nil
}

// open begins to answer the agent.
func (e *endpoints) open(ctx context.Context, sb sandbox.Sandbox, rec recorder, allowed []mcpconfig.Destination) error {
	places, err := sb.Listen(ctx)
	if err != nil {
		return err
	}
	for _, place := range places {
		handler := e.at(place)
		e.serving.Go(func() {
			err := e.proxy.Serve(context.WithoutCancel(ctx), place, handler)
			if err != nil && !errors.Is(err, net.ErrClosed) {
				rec.Event(evidence.Event{Kind: "proxy", Message: err.Error()})
			}
		})
	}
	if e.found, err = e.findServers(ctx, sb, places); err != nil {
		return err
	}
	if e.outlet, err = openOutlet(ctx, sb, sandbox.Agent, allowed, e.plan.EgressLimits, e.observer()); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	return nil
}

// only returns the one server that can be meant at a place, whatever Host a request names;
// empty if there are several.
func (e *endpoints) only(place sandbox.Endpoint) string {
	if len(e.servers) == 1 {
		return e.servers[0].Name
	}
	return place.Server
}

// findServers returns where the agent finds servers, by name, and writes mcp.json again if that is
// not under their names.
func (e *endpoints) findServers(ctx context.Context, sb sandbox.Sandbox, places []sandbox.Endpoint) (map[string]string, error) {
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
	return hosts, put(ctx, sb, sandbox.Agent, []plan.File{plan.NewFile(sandbox.MCPConfigPath, string(mcpconfig.Render(hosts)))})
}

// drain ends what the agent has under way outside and asks of models, and lets every server end
// and every answer be recorded. Only the first call does something.
func (e *endpoints) drain(ctx context.Context) (err error) {
	e.draining.Do(func() {
		if e.outlet != nil {
			e.outlet.Close()
		}
		if e.models != nil {
			e.models.Close()
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		err = e.proxy.Close(ctx)
		e.serving.Wait()
	})
	return err
}

// settle blames the agent for what it overspent up to its end, and records which keys of models
// were refused. It is called after drain.
func (e *endpoints) settle() {
	if why := e.overspent(); why != "" && e.record.Class == "" {
		e.blame(evidence.ClassAgentError, evidence.ReasonBudget, why)
	}
	if e.models == nil {
		return
	}
	for _, why := range e.models.Refused() {
		e.remark(why)
	}
}

// overspent says which of its limits of calls, of models or of evidence the agent exceeded; empty
// for none.
func (e *endpoints) overspent() string {
	all := []string{e.proxy.Overspent()}
	if e.models != nil {
		all = append(all, e.models.Overspent())
	}
	return cmp.Or(strings.Trim(strings.Join(all, "; "), "; "), e.overShare())
}

// exhausted is closed once the agent was refused models so often that it is to be ended. It is
// nil, which is never closed, if the agent has no models.
func (e *endpoints) exhausted() <-chan struct{} {
	if e.models == nil {
		return nil
	}
	return e.models.Exhausted()
}

// at returns the handler of a place: models under their host's name, servers under all others.
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

// atAddress passes on requests whose Host is an address of this machine and that come from no
// page: no page that a browser has open may spend a key.
func atAddress(addr string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != addr || r.Header.Get("Origin") != "" {
			http.Error(w, "Models are at http://"+addr+", and not for browsers.", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// ModelCall implements gateway.Recorder.
func (nobody) ModelCall(evidence.ModelCall) {}

// Now implements gateway.Recorder.
func (nobody) Now() time.Time { return time.Now() }

// openOutlet lets the programs of a container reach what the eval allows, until its Close. It
// returns nil if nothing is allowed.
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

// describeEgress lists what may be reached.
func describeEgress(allowed []mcpconfig.Destination) string {
	texts := make([]string, len(allowed))
	for i, d := range allowed {
		texts[i] = d.String()
	}
	return strings.Join(texts, ", ")
}

// maxPlayed is how many invocations of commands are answered in a trial.
const maxPlayed = 10_000

// commands answers for the commands that a trial mocks.
type commands struct {
	*recording
	workspace string // where the agent has it

	mu     sync.Mutex
	played []evidence.CommandInvocation // guarded by mu
}

// ServeHTTP answers a command in the agent's container and records how it was started. Only what
// was asked here is recorded: no file in the container counts.
func (c *commands) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in, err := cmdmock.ReadInvocation(r.Body)
	i := slices.IndexFunc(c.plan.Commands, func(mock cmdmock.Command) bool { return mock.Name == in.Command })
	if err != nil || i < 0 || r.Method != http.MethodPost {
		http.Error(w, fmt.Sprintf("cannot be answered: %v", err), http.StatusBadRequest)
		return
	}
	answer := c.plan.Commands[i].Answer(in, c.workspace)
	done := evidence.CommandInvocation{Command: in.Command, Args: in.Args, ExitCode: answer.ExitCode, ResponseIndex: answer.Response}
	if !c.keep(done) {
		http.Error(w, "the agent has started more commands than it may", http.StatusTooManyRequests)
		return
	}
	c.acted.Store(true)
	c.rec.Event(evidence.Event{
		Kind: "command", Where: sandbox.Agent, Message: strings.Join(append([]string{in.Command}, in.Args...), " "),
		Data: map[string]any{"args": in.Args, "exit_code": answer.ExitCode, "response_index": answer.Response},
	})
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// keep records an invocation, and reports whether there was room for it.
func (c *commands) keep(done evidence.CommandInvocation) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	args, _ := json.Marshal(done.Args)
	if len(c.played) == maxPlayed || !c.shares.Agent.Take(3*evidence.CostOf(args)) {
		return false
	}
	c.played = append(c.played, done)
	return true
}

// end puts the invocations on the trial's record, and the first unexpected number of them.
func (c *commands) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record.Commands = c.played
	for _, mock := range c.plan.Commands {
		count := 0
		for _, done := range c.played {
			if done.Command == mock.Name {
				count++
			}
		}
		if mock.ExpectCalls != nil && count != *mock.ExpectCalls && c.record.Miscalled == "" {
			c.record.Miscalled = fmt.Sprintf("command %q was called %d time(s), and is expected to be called %d time(s)", mock.Name, count, *mock.ExpectCalls)
		}
	}
}
