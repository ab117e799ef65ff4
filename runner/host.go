package runner

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

const (
	// stopTimeout bounds ending a server's program; its box ends after it.
	stopTimeout = 15 * time.Second
	// maxResponseHeader is how much a server's response headers may be.
	maxResponseHeader = 64 << 10
	// keptIdle is how long a connection to a server in its box waits for the next
	// request. It is shorter than any server's own limit, so that no request meets a
	// connection that the server is just closing.
	keptIdle = 500 * time.Millisecond
	// maxIdle is how many connections to one server wait so.
	maxIdle = 8
)

// host is a server where it lives: in its box, or far away.
type host struct {
	plan     plan.Server
	sandbox  sandbox.Sandbox
	upstream *proxy.Upstream // where it speaks HTTP; else nil
	idle     func()          // closes connections that nobody uses; nil where none are kept
	services *auxiliaries
	outlet   *egress.Carrier // nil where it may reach nothing outside
	unpinned unpinned        // set by the probe
	mocked   func(string)    // is told of calls that a mock has no response for; nil for a real server
}

// startHost starts the services of a server, puts the server's files into its box,
// and starts its program where it speaks HTTP; one that speaks stdio is started for
// each session, and a remote one is there. What happens meanwhile goes to rec, and
// what is written to the outputs that output names. The host is there to be stopped
// also where it failed.
func startHost(ctx context.Context, sb sandbox.Sandbox, s plan.Server, limits egress.Limits, rec overseer, output func(string) io.Writer) (_ *host, err error) {
	h := &host{plan: s, sandbox: sb, services: &auxiliaries{server: s.Name, sandbox: sb, rec: rec}}
	if s.Mock != nil {
		h.mocked = func(message string) { rec.Event(evidence.Event{Kind: "mock", Where: s.Name, Message: message}) }
		return h, nil
	}
	if s.Remote {
		return h, h.connect(rec)
	}
	if err := h.services.start(ctx, s.Services, output); err != nil {
		return h, err
	}
	if err := put(ctx, sb, s.Name, "/", s.Files); err != nil {
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
		resident, err := proxy.StartResident(ctx, rec, proxy.Limits{}, h.launched(output(s.Name)))
		if err != nil {
			return h, err
		}
		h.upstream = h.inBox(resident)
	}
	return h, nil
}

// stop ends a program that startHost started. Its services end with their boxes.
func (h *host) stop(ctx context.Context) {
	h.services.leave()
	if h.resident() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	h.resident().Stop(ctx)
}

// await waits until what is left of the programs has ended with their boxes, and what
// they have under way outside.
func (h *host) await(ctx context.Context) error {
	if h.outlet != nil {
		h.outlet.Close()
	}
	h.services.await()
	if h.idle != nil {
		h.idle()
	}
	if h.resident() == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	select {
	case <-h.resident().Gone():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the output of server %q did not end with its sandbox", h.plan.Name)
	}
}

// resident is the program, where that lives as long as the box.
func (h *host) resident() *proxy.Resident {
	if h.upstream == nil {
		return nil
	}
	return h.upstream.Process
}

// server is what a proxy needs to know of it.
func (h *host) server(log io.Writer) proxy.Server {
	if h.upstream == nil {
		return h.launched(log)
	}
	s := h.known(log)
	s.Upstream = h.upstream
	return s
}

// launched is a server whose program is started when it is needed.
func (h *host) launched(log io.Writer) proxy.Server {
	s := h.known(log)
	if h.plan.Mock != nil {
		s.Launch = func(context.Context) (process.Process, error) { return h.plan.Mock.Start(h.mocked), nil }
		return s
	}
	program := h.plan.Process(h.sandbox.Layout(s.Name).Home)
	s.Launch = func(ctx context.Context) (process.Process, error) {
		return h.sandbox.Start(ctx, s.Name, program)
	}
	return s
}

// known is what does not depend on how the server is reached.
func (h *host) known(log io.Writer) proxy.Server {
	return proxy.Server{
		Name: h.plan.Name, Host: h.plan.Host(), Start: h.plan.StartupTimeout, Timeout: h.plan.Timeout,
		Message: h.plan.MaxMessage, Frames: h.plan.MaxFrames, Traffic: h.plan.MaxTraffic, Stderr: log, Tools: h.plan.Expanded.Shown(),
	}
}

// inBox is the server's endpoint in its box, reached by the runner alone.
func (h *host) inBox(program *proxy.Resident) *proxy.Upstream {
	s := h.plan
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return h.sandbox.Dial(ctx, s.Name, s.Port)
		},
		DisableCompression:     true,
		IdleConnTimeout:        keptIdle,
		MaxIdleConnsPerHost:    maxIdle,
		MaxResponseHeaderBytes: maxResponseHeader,
	}
	h.idle = transport.CloseIdleConnections
	return &proxy.Upstream{
		URL:       &url.URL{Scheme: "http", Host: net.JoinHostPort("localhost", strconv.Itoa(s.Port)), Path: s.Path},
		Transport: transport,
		Events:    s.Transport == mcpconfig.SSE,
		Process:   program,
	}
}
