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

	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/mcpproxy"
	"github.com/waza-isolate/waza/runner/process"
)

const (
	// stopTimeout bounds ending a server's program; its box ends after it.
	stopTimeout = 15 * time.Second
	// maxResponseHeader is how much a server's response headers may be.
	maxResponseHeader = 64 << 10
)

// host is a server in its box.
type host struct {
	plan     Server
	sandbox  Sandbox
	resident *mcpproxy.Resident // its program, where that lives as long as the box
}

// startHost puts a server's files into its box and starts its program where it
// speaks HTTP; one that speaks stdio is started for each session. What happens to
// the program goes to rec, and what it writes to log.
func startHost(ctx context.Context, sandbox Sandbox, s Server, rec mcpproxy.Recorder, log io.Writer) (*host, error) {
	h := &host{plan: s, sandbox: sandbox}
	if err := put(ctx, sandbox, s.Name, "/", s.Files); err != nil {
		return nil, fmt.Errorf("files of server %q: %w", s.Name, err)
	}
	var err error
	switch s.Transport {
	case mcpconfig.HTTP, mcpconfig.SSE:
		h.resident, err = mcpproxy.StartResident(ctx, rec, mcpproxy.Limits{}, h.launched(log))
	}
	return h, err
}

// stop ends a program that startHost started.
func (h *host) stop(ctx context.Context) {
	if h == nil || h.resident == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	h.resident.Stop(ctx)
}

// server is what a proxy needs to know of it.
func (h *host) server(log io.Writer) mcpproxy.Server {
	s := h.launched(log)
	if h.resident != nil {
		s.Launch, s.Upstream = nil, h.upstream()
	}
	return s
}

// launched is a server whose program is started when it is needed.
func (h *host) launched(log io.Writer) mcpproxy.Server {
	s := h.plan
	program := serverProcess(s.expanded, h.sandbox.Layout(s.Name).Home)
	return mcpproxy.Server{
		Name: s.Name, Start: s.StartupTimeout, Timeout: s.Timeout, Message: s.MaxMessage, Stderr: log,
		Launch: func(ctx context.Context) (process.Process, error) {
			return h.sandbox.Start(ctx, s.Name, program)
		},
	}
}

// upstream is the server's endpoint in its box, reached by the runner alone.
func (h *host) upstream() *mcpproxy.Upstream {
	s := h.plan
	return &mcpproxy.Upstream{
		URL: &url.URL{Scheme: "http", Host: net.JoinHostPort("localhost", strconv.Itoa(s.Port)), Path: s.Path},
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return h.sandbox.Dial(ctx, s.Name, s.Port)
			},
			DisableCompression:     true,
			DisableKeepAlives:      true, // a dial is cheap here, and no request meets a connection at its end
			MaxResponseHeaderBytes: maxResponseHeader,
		},
		Events:  s.Transport == mcpconfig.SSE,
		Process: h.resident,
	}
}
