package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/model/gateway"
	"github.com/waza-isolate/waza/model/recorded"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/cmdmock"
)

// openGateway returns the handler for [sandbox.ModelHost], or nil if the trial has no models.
func openGateway(t *plan.Trial, log observer) (*gateway.Gateway, error) {
	if t.Models == nil {
		return nil, nil
	}
	var providers []gateway.Provider
	faults := cassette.NewFaults(t.Faults, t.Task, t.Number)
	for _, p := range t.Models.Providers {
		made, options := newProvider(p, log), playing(p, t.Number, log)
		if p.Played {
			var err error
			if made.Player, err = recorded.Play(p.Access.Side, options); err != nil {
				return nil, err
			}
		}
		if next := faults.Of(cassette.Models, p.Name); next != nil {
			made.Fault = func(method, path string, body []byte) *cassette.Fault {
				return next(func() map[string]any { return options.Members(method, path, body) })
			}
		}
		providers = append(providers, made)
	}
	return gateway.New(log, t.Models.Limits, providers...), nil
}

// playing returns the options for playing a provider from the cassette.
func playing(p plan.Provider, trial int, log observer) recorded.Options {
	return recorded.Options{
		Clean: log.Clean, With: map[string]any{"trial": json.Number(strconv.Itoa(trial))}, Live: p.Live,
		Missed: func(message string) {
			if p.Live {
				log.Event(evidence.Event{Kind: "live", Where: p.Name, Message: "was asked what the cassette has no answer to: " + message})
				return
			}
			log.missed(p.Name, errors.New(message))
		},
	}
}

func newProvider(p plan.Provider, rec gateway.Recorder) gateway.Provider {
	a, out := p.Access, p.Access.Provider
	if p.Script != "" {
		out.Kind = "" // a script plays the models of all
	}
	switch {
	case p.Played && !p.Live:
		return out
	case a.Script != nil:
		out.BaseURL, out.Transport = &url.URL{Scheme: "http", Host: sandbox.ModelHost}, gateway.InProcess(a.Script())
		return out
	}
	transport := newTransport(recordingDial(&net.Dialer{Timeout: connectTimeout}, rec, "provider", p.Name, a.BaseURL), remoteIdle)
	transport.Proxy = func(r *http.Request) (*url.URL, error) { return a.Proxy(r.URL) }
	out.Transport = transport
	return out
}

// endpoints are what the agent connects to: its servers, its models and allowed hosts outside.
type endpoints struct {
	plan      *plan.Trial
	observer  observer
	servers   []proxy.Server
	proxy     *proxy.Proxy
	models    *gateway.Gateway // nil if there are no models
	commands  *commands
	answers   *answers
	addresses map[string]string // addresses of servers for the agent, by name
	outlet    *egress.Proxy     // nil if the agent has no egress
	serving   sync.WaitGroup
	draining  sync.Once
}

// openEndpoints starts the proxy for servers, whose traffic is recorded by rec, and the egress
// proxy. They and models, which may be nil, run until drain.
func openEndpoints(ctx context.Context, s *stage, rec proxy.Recorder, models *gateway.Gateway, allowed []mcpconfig.Destination) (*endpoints, error) {
	e := &endpoints{
		plan: s.plan, observer: s.log, models: models,
		commands: newCommands(s.plan.Commands, s.sandbox.Layout(sandbox.Agent).Workspace, s.log),
		answers:  &answers{table: s.plan.Answers, rec: s.log.Recorder, secrets: s.o.Secrets, acted: s.log.acted},
	}
	for _, up := range s.servers.up {
		e.servers = append(e.servers, up.proxied)
	}
	e.proxy = proxy.New(rec, proxy.Limits{Calls: e.plan.Agent.MaxCalls}, e.servers...)
	if err := e.listen(ctx, s.sandbox, rec, allowed); err != nil {
		return nil, errors.Join(err, e.close(ctx))
	}
	return e, nil
}

// listen starts listening for the agent.
func (e *endpoints) listen(ctx context.Context, sb sandbox.Sandbox, rec proxy.Recorder, allowed []mcpconfig.Destination) error {
	places, err := sb.Listen(ctx)
	if err != nil {
		return err
	}
	for _, place := range places {
		handler := e.handlerFor(place)
		e.serving.Go(func() {
			err := e.proxy.Serve(context.WithoutCancel(ctx), place, handler)
			if err != nil && !errors.Is(err, net.ErrClosed) {
				rec.Event(evidence.Event{Kind: "proxy", Message: err.Error()})
			}
		})
	}
	if e.addresses, err = e.findServers(ctx, sb, places); err != nil {
		return err
	}
	if e.outlet, err = openOutlet(ctx, sb, sandbox.Agent, allowed, e.plan.EgressLimits, e.observer); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	return nil
}

// onlyServer returns the server that requests at a listener are for, or "" if the Host header
// decides.
func (e *endpoints) onlyServer(place sandbox.Endpoint) string {
	if len(e.servers) == 1 {
		return e.servers[0].Name
	}
	return place.Server
}

// findServers returns the addresses of servers for the agent, by name. If they differ from the
// servers' host names, it writes mcp.json again.
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

// drain closes the agent's connections to hosts outside and to models, and waits until servers have
// finished and all answers are recorded. Server processes that graders still call run until close.
// Only the first call has an effect.
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
		err = e.proxy.Release(ctx)
		e.serving.Wait()
	})
	return err
}

// close drains the endpoints and ends all processes.
func (e *endpoints) close(ctx context.Context) error {
	return errors.Join(e.drain(ctx), closeProxy(ctx, e.proxy))
}

// refused returns which API keys were rejected by models, and how to fix that.
func (e *endpoints) refused() []string {
	if e.models == nil {
		return nil
	}
	return e.models.Refused()
}

// overspent describes which limits of calls, messages or models the agent exceeded, or returns "".
func (e *endpoints) overspent() string {
	all := []string{e.proxy.Overspent()}
	if e.models != nil {
		all = append(all, e.models.Overspent())
	}
	return strings.Trim(strings.Join(all, "; "), "; ")
}

// exhausted returns a channel that is closed when models have refused the agent so often that it
// must be stopped. It is nil if the agent has no models.
func (e *endpoints) exhausted() <-chan struct{} {
	if e.models == nil {
		return nil
	}
	return e.models.Exhausted()
}

// handlerFor returns the handler of a listener: models at [sandbox.ModelHost], servers at all other
// hosts.
func (e *endpoints) handlerFor(place sandbox.Endpoint) http.Handler {
	servers := e.observer.canaries.requests(e.onlyServer(place), e.proxy.Handler(e.onlyServer(place)))
	if !e.plan.AsksRunner() {
		return servers
	}
	gateway := e.models
	models := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == cmdmock.Path && len(e.plan.Commands) > 0:
			e.commands.ServeHTTP(w, r)
		case r.URL.Path == input.AnswersPath && len(e.plan.Answers) > 0:
			e.answers.ServeHTTP(w, r)
		case gateway == nil:
			http.NotFound(w, r)
		default:
			e.observer.acted.Store(true)
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

// atAddress forwards only requests whose Host is addr and that have no Origin header, so that
// web pages cannot spend the API key.
func atAddress(addr string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != addr || r.Header.Get("Origin") != "" {
			http.Error(w, "Models are at http://"+addr+", and not for browsers.", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// openOutlet opens the egress proxy of a container, for the allowed destinations. It returns
// nil if there are none.
func openOutlet(ctx context.Context, sb sandbox.Sandbox, container string, allowed []mcpconfig.Destination, limits egress.Limits, rec outsideRecorder) (*egress.Proxy, error) {
	if len(allowed) == 0 {
		return nil, nil
	}
	contained, ok := sb.(sandbox.Contained)
	if !ok {
		return nil, errors.New("egress needs containers; run with --isolate")
	}
	forwarder := egress.New(egress.Options{
		Container: container, Allowed: allowed, Limits: limits, Record: rec.Event, Named: rec.Named, Tap: rec.Tap,
	})
	for _, place := range egress.Places(allowed) {
		ln, err := contained.ListenAt(ctx, container, place.At)
		if err != nil {
			forwarder.Close()
			return nil, fmt.Errorf("egress at %s of its container: %w", place.At, err)
		}
		forwarder.Serve(ln, place)
	}
	return forwarder, nil
}

// describeEgress lists destinations for a message.
func describeEgress(allowed []mcpconfig.Destination) string {
	texts := make([]string, len(allowed))
	for i, d := range allowed {
		texts[i] = d.String()
	}
	return strings.Join(texts, ", ")
}

// Limits on the mocked commands that are answered per trial: their number, and the bytes of their
// arguments.
const (
	maxInvocations = 10_000
	maxInvoked     = 16 << 20
)

// commands answers the commands that a trial mocks.
type commands struct {
	mocks     []eval.CommandMock
	players   []*cassette.Player // of mocks
	workspace string             // its path in the agent's container
	rec       observer

	mu          sync.Mutex
	invocations []evidence.CommandInvocation // guarded by mu
	size        int                          // bytes of their arguments; guarded by mu
}

func newCommands(mocks []eval.CommandMock, workspace string, rec observer) *commands {
	c := &commands{mocks: mocks, workspace: workspace, rec: rec}
	for i := range mocks {
		c.players = append(c.players, mocks[i].Play())
	}
	return c
}

// ServeHTTP answers a mocked command in the agent's container and records it. Only requests
// that arrive here are recorded; files in the container are not trusted.
func (c *commands) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in, err := cmdmock.ReadInvocation(r.Body)
	i := slices.IndexFunc(c.mocks, func(mock eval.CommandMock) bool { return mock.Name == in.Command })
	switch {
	case r.Method != http.MethodPost:
		http.Error(w, "only POST is answered", http.StatusMethodNotAllowed)
		return
	case err != nil:
		http.Error(w, fmt.Sprintf("cannot be answered: %v", err), http.StatusBadRequest)
		return
	case i < 0:
		http.Error(w, "no such command is mocked", http.StatusNotFound)
		return
	}
	answer, given, kept := c.answer(i, in)
	if !kept {
		http.Error(w, "the agent has started more commands than it may", http.StatusTooManyRequests)
		return
	}
	c.rec.acted.Store(true)
	c.rec.Recorder.Event(evidence.Event{
		Kind: "command", Where: sandbox.Agent, Message: strings.Join(append([]string{in.Command}, in.Args...), " "),
		Data: map[string]any{"args": in.Args, "exit_code": answer.ExitCode, "response_index": given.Entry},
	})
	w.Header().Set("Content-Type", "application/json")
	if given.Delay > 0 {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush() // the client waits as long as it takes
		select {
		case <-time.After(given.Delay):
		case <-r.Context().Done():
			return
		}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// answer returns the answer of a mock to an invocation and records it. It reports whether that was
// within the limits.
func (c *commands) answer(mock int, in cmdmock.Invocation) (answer cmdmock.Answer, given cassette.Given, kept bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := eval.InvocationMembers(in, c.workspace)
	given, miss := c.players[mock].Ask("", asked)
	switch {
	case miss == nil:
		_ = json.Unmarshal(given.Value, &answer) // eval checked it
	case c.mocks[mock].IsPlayed():
		delete(asked, "env") // env is long and would hide the rest
		c.rec.missed(in.Command, miss)
		answer, given = cmdmock.Answer{Stderr: "waza: " + miss.Error() + "\n", ExitCode: cmdmock.ExitUnmatched}, cassette.Given{Entry: -1}
	default:
		answer, given = unanswered(in, miss), cassette.Given{Entry: -1}
	}
	args, _ := json.Marshal(in.Args)
	if len(c.invocations) == maxInvocations || c.size+len(args) > maxInvoked {
		return answer, given, false
	}
	c.size += len(args)
	c.invocations = append(c.invocations, evidence.CommandInvocation{Command: in.Command, Args: in.Args, ExitCode: answer.ExitCode, ResponseIndex: given.Entry})
	return answer, given, true
}

// unanswered returns the answer of a mocked command that the cassette has no answer for.
func unanswered(in cmdmock.Invocation, miss *cassette.Miss) cmdmock.Answer {
	why := "no response of the mock of %s matches the arguments %q"
	if miss.Spent {
		why = "the sequence of the mock of %s has no more steps for the arguments %q"
	}
	return cmdmock.Answer{Stderr: fmt.Sprintf("waza: "+why+"; add one to command_mocks\n", in.Command, in.Args), ExitCode: cmdmock.ExitUnmatched}
}

// invoked returns the invocations, and the first command whose number of calls was not as expected, or "".
func (c *commands) invoked() (all []evidence.CommandInvocation, miscalled string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, mock := range c.mocks {
		count := 0
		for _, done := range c.invocations {
			if done.Command == mock.Name {
				count++
			}
		}
		if mock.ExpectCalls != nil && count != *mock.ExpectCalls && miscalled == "" {
			miscalled = fmt.Sprintf("command %q was called %s, and is expected to be called %s", mock.Name, text.Count(count, "time"), text.Count(*mock.ExpectCalls, "time"))
		}
	}
	return c.invocations, miscalled
}
