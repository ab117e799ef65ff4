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

// remote is the endpoint of a server that is not run here. Nothing of the
// environment says how it is reached.
func (tr *trialRun) remote(s Server) (*mcpproxy.Upstream, error) {
	where, err := url.Parse(s.expanded.URL)
	if err != nil {
		return nil, fmt.Errorf("server %q: its url cannot be read", s.Name)
	}
	transport := &http.Transport{
		DialContext:            tr.egress(s.Name, where),
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    connectTimeout,
		IdleConnTimeout:        idleConnection,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxResponseHeader,
	}
	if s.expanded.Proxy != "" {
		proxy, err := url.Parse(s.expanded.Proxy)
		if err != nil {
			return nil, fmt.Errorf("server %q: its proxy cannot be read", s.Name)
		}
		transport.Proxy = http.ProxyURL(proxy)
	}
	tr.idle = append(tr.idle, transport.CloseIdleConnections)
	return &mcpproxy.Upstream{
		URL: where, Transport: transport, Headers: s.expanded.Headers, Remote: true,
		Events: s.Transport == mcpconfig.SSE,
	}, nil
}

// egress dials for a server, and records once that the trial went out there.
func (tr *trialRun) egress(server string, where *url.URL) func(context.Context, string, string) (net.Conn, error) {
	origin := where.Scheme + "://" + where.Host
	told := sync.OnceFunc(func() {
		tr.rec.Event(evidence.Event{
			Kind: "egress", Where: server, Message: "the runner connects to " + origin,
			Data: map[string]any{"server": server, "origin": origin},
		})
	})
	dialer := &net.Dialer{Timeout: connectTimeout}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		told()
		return dialer.DialContext(ctx, network, addr)
	}
}
