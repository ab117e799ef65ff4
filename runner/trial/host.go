package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

const (
	// maxResponseHeader is how much a server's response headers may be.
	maxResponseHeader = 64 << 10
	// keptIdle is how long a connection to a server in its container waits for the next
	// request. It is shorter than any server's own limit, so that no request meets a
	// connection that the server is just closing.
	keptIdle = 500 * time.Millisecond
	// maxIdle is how many connections to one server or provider are kept: as many as an
	// agent may have of its own.
	maxIdle = 256
)

// host is a server where it runs: in its container, or far away.
type host struct {
	plan     plan.Server
	sandbox  sandbox.Sandbox
	upstream *transport.Upstream // where it speaks HTTP; else nil
	services *services
	outlet   *egress.Proxy // nil where it may reach nothing outside
	unpinned unpinned      // set by the probe
	early    bool          // set by the probe: it does not answer server/discover
	mocked   func(string)  // gets calls that a mock has no response for; nil for a real server
}

// startHost starts the services of a server, puts the server's files into its container,
// and starts its program where it speaks HTTP; one that speaks stdio is started for
// each session, and a remote one is there. What happens meanwhile goes to rec, and
// what is written to the outputs that output names. The host is there to be stopped
// also where it failed.
func startHost(ctx context.Context, sb sandbox.Sandbox, s plan.Server, limits egress.Limits, rec outsideRecorder, output func(string) io.Writer) (_ *host, err error) {
	h := &host{plan: s, sandbox: sb, services: &services{server: s.Name, rec: rec}}
	if s.Mock != nil {
		h.mocked = func(message string) { rec.Event(evidence.Event{Kind: "mock", Where: s.Name, Message: message}) }
		return h, nil
	}
	if s.Remote {
		return h, h.connect(rec)
	}
	if err := h.services.start(ctx, sb, s.Services, output); err != nil {
		return h, err
	}
	if err := put(ctx, sb, s.Name, s.Files); err != nil {
		return h, fmt.Errorf("files of server %q: %w", s.Name, err)
	}
	if h.outlet, err = openOutlet(ctx, sb, s.Name, s.Egress, limits, rec); err != nil {
		return h, fmt.Errorf("server %q: %w", s.Name, err)
	}
	switch s.Transport {
	case mcpconfig.HTTP, mcpconfig.SSE:
		if sharer, ok := sb.(sandbox.PortSharer); ok {
			if err := sharer.TakePort(ctx, s.Name, s.Port); err != nil {
				return h, fmt.Errorf("server %q: %w", s.Name, err)
			}
		}
		resident, err := transport.StartResident(ctx, rec, h.server(output(s.Name)).Server)
		if err != nil {
			return h, &client.Error{Server: s.Name, Class: client.ErrNotStarted, Cause: err}
		}
		h.upstream = h.inContainer(resident)
	}
	return h, nil
}

// stop ends a program that startHost started. Its services end with their containers.
func (h *host) stop(ctx context.Context) {
	h.services.leave()
	if program := h.resident(); program != nil {
		program.Stop(context.WithoutCancel(ctx))
	}
}

// await waits until the programs have ended with their containers, and ends their connections
// to the outside.
func (h *host) await() error {
	if h.outlet != nil {
		h.outlet.Close()
	}
	h.services.await()
	if h.upstream != nil {
		(&http.Client{Transport: h.upstream.Transport}).CloseIdleConnections()
	}
	if program := h.resident(); program != nil {
		return outputEnd(program.Gone(), fmt.Sprintf("the output of server %q", h.plan.Name))
	}
	return nil
}

// resident is the program, where that lives as long as the container.
func (h *host) resident() *transport.Resident {
	if h.upstream == nil {
		return nil
	}
	return h.upstream.Process
}

// server is what a proxy needs to know of it. A program that speaks stdio is started when it is
// needed, as is that of a server whose upstream is not there yet.
func (h *host) server(log io.Writer) proxy.Server {
	s := proxy.Server{
		Server: transport.Server{
			Name: h.plan.Name, Start: h.plan.StartupTimeout, Timeout: h.plan.Timeout,
			Message: h.plan.MaxMessage, Frames: h.plan.MaxFrames, Traffic: h.plan.MaxTraffic, Stderr: log,
		},
		Host: h.plan.Host(), Tools: h.plan.Expanded.Shown(),
	}
	switch {
	case h.upstream != nil:
		s.Upstream = h.upstream
	case h.plan.Mock != nil:
		s.Launch = func(context.Context) (process.Process, error) { return h.plan.Mock.Start(h.mocked), nil }
	default:
		program := h.plan.Process(sandbox.LayoutOf(h.sandbox, h.plan.Name).Home)
		s.Launch = func(ctx context.Context) (process.Process, error) { return h.sandbox.Start(ctx, h.plan.Name, program) }
	}
	return s
}

// inContainer is the server's endpoint in its container, reached by the runner alone.
func (h *host) inContainer(program *transport.Resident) *transport.Upstream {
	s := h.plan
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return h.sandbox.Dial(ctx, s.Name, s.Port) }
	return &transport.Upstream{
		URL:       &url.URL{Scheme: "http", Host: net.JoinHostPort("localhost", strconv.Itoa(s.Port)), Path: s.Path},
		Transport: newTransport(dial, keptIdle),
		Events:    s.Transport == mcpconfig.SSE,
		Process:   program,
	}
}

// newTransport returns a transport to a server or a provider of models, whose connections wait as
// long as idle for the next request.
func newTransport(dial func(ctx context.Context, network, addr string) (net.Conn, error), idle time.Duration) *http.Transport {
	return &http.Transport{
		DialContext:            dial,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    connectTimeout,
		IdleConnTimeout:        idle,
		MaxIdleConnsPerHost:    maxIdle,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxResponseHeader,
	}
}

// How the runner connects to remote servers.
const (
	connectTimeout = 10 * time.Second
	// idleConnection is shorter than what common servers keep, so that a request
	// does not meet a connection that its server is closing.
	idleConnection = 4 * time.Second
)

// connect sets how a remote server is reached. The environment has no influence on it.
func (h *host) connect(rec proxy.Recorder) error {
	s := h.plan
	where, err := url.Parse(s.Expanded.URL)
	if err != nil {
		return fmt.Errorf("server %q: its url cannot be read", s.Name)
	}
	httpTransport, err := remoteTransport(s, where, rec, nil)
	if err != nil {
		return fmt.Errorf("server %q: %w", s.Name, err)
	}
	h.upstream = &transport.Upstream{
		URL: where, Transport: httpTransport, Headers: s.Expanded.Headers, Remote: true,
		Events: s.Transport == mcpconfig.SSE,
	}
	return nil
}

// remoteTransport returns a transport to a remote server at where: to the addresses that its name
// may resolve to, or through its proxy, which resolves it. A nil resolver is this machine's.
func remoteTransport(s plan.Server, where *url.URL, rec eventRecorder, resolver *net.Resolver) (*http.Transport, error) {
	dialer := &net.Dialer{Timeout: connectTimeout, Resolver: resolver}
	httpTransport := newTransport(recordingDial(dialer, rec, "server", s.Name, where), idleConnection)
	if s.Expanded.Proxy != "" {
		proxy, err := url.Parse(s.Expanded.Proxy)
		if err != nil {
			return nil, errors.New("its proxy cannot be read")
		}
		httpTransport.Proxy = http.ProxyURL(proxy)
		return httpTransport, nil
	}
	named := egress.Named{Host: where.Hostname()}
	for i, entry := range s.Expanded.Addresses {
		in, err := mcpconfig.ReadAddress(entry)
		if err != nil {
			return nil, fmt.Errorf("addresses[%d] %w", i, err)
		}
		named.Allowed = append(named.Allowed, in)
	}
	dialer.ControlContext = func(ctx context.Context, network, address string, conn syscall.RawConn) error {
		return barred(s, named.Judge(ctx, network, address, conn))
	}
	return httpTransport, nil
}

// barred adds to an error of an address what to write in the eval if the address is right.
func barred(s plan.Server, err error) error {
	if refused, ok := errors.AsType[*egress.AddressError](err); ok {
		is := netip.PrefixFrom(refused.Address, refused.Address.BitLen())
		return &transport.Barred{Err: fmt.Errorf("%w; if the server is meant to be there, set addresses: [%q] of mcp_servers.%s in an eval", err, is, s.Name)}
	}
	return err
}

// recordingDial returns a dial function for a server or a provider that records once that the trial
// connected there, and once that it was refused.
func recordingDial(dialer *net.Dialer, rec eventRecorder, what, name string, where *url.URL) func(context.Context, string, string) (net.Conn, error) {
	origin := where.Scheme + "://" + where.Host
	record := func(does string, data map[string]any) {
		data[what], data["origin"] = name, origin
		rec.Event(evidence.Event{Kind: "egress", Where: name, Message: "the runner " + does + " to " + origin, Data: data})
	}
	var connects, refused sync.Once
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, addr)
		if why, ok := errors.AsType[*transport.Barred](err); ok {
			refused.Do(func() { record("does not connect", map[string]any{"allowed": false, "why": why.Error()}) })
		} else {
			connects.Do(func() { record("connects", map[string]any{}) })
		}
		return conn, err
	}
}
