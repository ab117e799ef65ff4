package runner

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/evidence"
	"github.com/waza-isolate/waza/runner/mcpproxy"
)

// How the runner connects to remote servers.
const (
	connectTimeout = 10 * time.Second
	// idleConnection is shorter than what common servers keep, so that a request
	// does not meet a connection that its server is closing.
	idleConnection = 4 * time.Second
)

// connect says how a server is reached that is not run here. Nothing of the
// environment has a say in it.
func (h *host) connect(rec mcpproxy.Recorder) error {
	s := h.plan
	where, err := url.Parse(s.expanded.URL)
	if err != nil {
		return fmt.Errorf("server %q: its url cannot be read", s.Name)
	}
	transport := &http.Transport{
		DialContext:            tellingDial(rec, "server", s.Name, where),
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    connectTimeout,
		IdleConnTimeout:        idleConnection,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxResponseHeader,
	}
	if s.expanded.Proxy != "" {
		proxy, err := url.Parse(s.expanded.Proxy)
		if err != nil {
			return fmt.Errorf("server %q: its proxy cannot be read", s.Name)
		}
		transport.Proxy = http.ProxyURL(proxy)
	}
	h.idle = transport.CloseIdleConnections
	h.upstream = &mcpproxy.Upstream{
		URL: where, Transport: transport, Headers: s.expanded.Headers, Remote: true,
		Events: s.Transport == mcpconfig.SSE,
	}
	return nil
}

// tellingDial dials for a server, or for what else is named, and records once that the trial
// went out there.
func tellingDial(rec interface{ Event(evidence.Event) }, what, name string, where *url.URL) func(context.Context, string, string) (net.Conn, error) {
	origin := where.Scheme + "://" + where.Host
	told := sync.OnceFunc(func() {
		rec.Event(evidence.Event{
			Kind: "egress", Where: name, Message: "the runner connects to " + origin,
			Data: map[string]any{what: name, "origin": origin},
		})
	})
	dialer := &net.Dialer{Timeout: connectTimeout}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		told()
		return dialer.DialContext(ctx, network, addr)
	}
}
