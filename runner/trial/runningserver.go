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
	"github.com/waza-isolate/waza/mcp/mock"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

const (
	// maxResponseHeader is the maximum size of a server's response headers in bytes.
	maxResponseHeader = 64 << 10
	// containerIdle is how long an idle connection to a server in a container is kept. It is shorter
	// than servers' own limits, so that no request is sent on a connection that the server is
	// closing.
	containerIdle = 500 * time.Millisecond
	// maxIdle is how many idle connections to a server or provider are kept: as many as an
	// agent may open.
	maxIdle = 256
)

// runningServer is a running server, in its container or remote.
type runningServer struct {
	plan       plan.Server
	sandbox    sandbox.Sandbox
	upstream   *transport.Upstream // endpoint of an HTTP server; else nil
	services   *services
	outlet     *egress.Proxy // nil if it has no egress
	unpinned   pinDifference // set by probe
	noDiscover bool          // set by probe: does not support server/discover
	played     *mock.Player  // nil for a real server, and until the trial plays it
	live       *liveServer   // answers what played has no answer for; may be nil
}

// startServer starts a server's services, puts the server's files into its container and starts its
// program if it speaks HTTP. A stdio server is started for each session, and a remote one is not
// started. Events go to rec, outputs to the writers that output returns, and messages to a waiting
// user to say. The server must be stopped even if startServer fails.
func startServer(ctx context.Context, sb sandbox.Sandbox, s plan.Server, limits egress.Limits, rec outsideRecorder, output func(string) io.Writer, say func(string)) (_ *runningServer, err error) {
	h := &runningServer{plan: s, sandbox: sb, services: &services{server: s.Name, rec: rec, say: say}}
	switch {
	case s.Mock != nil && !s.Live:
		return h, nil
	case s.Remote:
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
		resident, err := transport.StartResident(ctx, rec, h.server("", output(s.Name)).Server)
		if err != nil {
			return h, &client.Error{Server: s.Name, Class: client.ErrNotStarted, Cause: err}
		}
		h.upstream = h.inContainer(resident)
	}
	return h, nil
}

// stop stops the program that startServer started. Services end with their containers.
func (h *runningServer) stop(ctx context.Context) {
	if h.live != nil {
		h.live.close(ctx)
	}
	h.services.expectExits()
	if program := h.resident(); program != nil {
		program.Stop(context.WithoutCancel(ctx))
	}
}

// await waits until the programs have ended with their containers, and closes their connections
// to hosts outside.
func (h *runningServer) await() error {
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

// resident returns the program of an HTTP server in its container, else nil.
func (h *runningServer) resident() *transport.Resident {
	if h.upstream == nil {
		return nil
	}
	return h.upstream.Process
}

// server returns the server for a proxy that serves by. A stdio program is started on demand, as is
// the program of a server whose upstream is not set yet.
func (h *runningServer) server(by evidence.Sender, log io.Writer) proxy.Server {
	s := proxy.Server{
		Server: transport.Server{
			Name: h.plan.Name, Start: h.plan.StartupTimeout, Timeout: h.plan.Timeout,
			Message: h.plan.MaxMessage, Frames: h.plan.MaxFrames, Traffic: h.plan.MaxTraffic, Stderr: log,
		},
		Host: h.plan.Host(), Tools: h.plan.Expanded.Shown(),
	}
	switch {
	case h.played != nil:
		s.Played = h.live == nil
		s.Launch = func(context.Context) (process.Process, error) { return h.played.Start(by), nil }
		s.OwnLaunch = func(context.Context) (process.Process, error) { return h.played.Start(evidence.SenderRunner), nil }
	case h.upstream != nil:
		s.Upstream = h.upstream
	default:
		program := h.plan.Process(h.sandbox.Layout(h.plan.Name).Home)
		s.Launch = func(ctx context.Context) (process.Process, error) { return h.sandbox.Start(ctx, h.plan.Name, program) }
	}
	return s
}

// inContainer returns the server's endpoint in its container, which only the runner can reach.
func (h *runningServer) inContainer(program *transport.Resident) *transport.Upstream {
	s := h.plan
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return h.sandbox.Dial(ctx, s.Name, s.Port) }
	return &transport.Upstream{
		URL:       &url.URL{Scheme: "http", Host: net.JoinHostPort("localhost", strconv.Itoa(s.Port)), Path: s.Path},
		Transport: newTransport(dial, containerIdle),
		Events:    s.Transport == mcpconfig.SSE,
		Process:   program,
	}
}

// newTransport returns a transport to a server or a model provider. idle is how long an unused
// connection is kept.
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

// Limits for connections to remote servers.
const (
	connectTimeout = 10 * time.Second
	// remoteIdle is shorter than the limits of common servers, so that no request is sent
	// on a connection that the server is closing.
	remoteIdle = 4 * time.Second
)

// connect sets up the transport to a remote server. Proxy settings of the environment are
// ignored.
func (h *runningServer) connect(rec proxy.Recorder) error {
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

// remoteTransport returns a transport to a remote server at where. It connects to addresses
// that the server's name may resolve to, or through its proxy, which then resolves the name. A
// nil resolver is the default one.
func remoteTransport(s plan.Server, where *url.URL, rec eventRecorder, resolver *net.Resolver) (*http.Transport, error) {
	dialer := &net.Dialer{Timeout: connectTimeout, Resolver: resolver}
	httpTransport := newTransport(recordingDial(dialer, rec, "server", s.Name, where), remoteIdle)
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
		return withAddressHint(s, named.Judge(ctx, network, address, conn))
	}
	return httpTransport, nil
}

// withAddressHint adds to an error about a refused address how to allow it in the eval.
func withAddressHint(s plan.Server, err error) error {
	if refused, ok := errors.AsType[*egress.AddressError](err); ok {
		is := netip.PrefixFrom(refused.Address, refused.Address.BitLen())
		return &transport.Barred{Err: fmt.Errorf("%w; if the server is meant to be there, set addresses: [%q] of mcp_servers.%s in an eval", err, is, s.Name)}
	}
	return err
}

// recordingDial returns a dial function for a server or provider. It records the first
// connection and the first refused one.
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
