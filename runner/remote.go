package runner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"time"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/plan"
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
func (h *host) connect(rec proxy.Recorder) error {
	s := h.plan
	where, err := url.Parse(s.Expanded.URL)
	if err != nil {
		return fmt.Errorf("server %q: its url cannot be read", s.Name)
	}
	transport, err := remoteTransport(s, where, rec, nil)
	if err != nil {
		return fmt.Errorf("server %q: %w", s.Name, err)
	}
	h.idle = transport.CloseIdleConnections
	h.upstream = &proxy.Upstream{
		URL: where, Transport: transport, Headers: s.Expanded.Headers, Remote: true,
		Events: s.Transport == mcpconfig.SSE,
	}
	return nil
}

// remoteTransport is how the runner asks a server that is at where, over addresses that
// its name may lead to, or through its proxy, which finds them itself. A nil resolver is
// this machine's.
func remoteTransport(s plan.Server, where *url.URL, rec eventRecorder, resolver *net.Resolver) (*http.Transport, error) {
	dialer := &net.Dialer{Timeout: connectTimeout, Resolver: resolver}
	transport := &http.Transport{
		DialContext:            tellingDial(dialer, rec, "server", s.Name, where),
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    connectTimeout,
		IdleConnTimeout:        idleConnection,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxResponseHeader,
	}
	if s.Expanded.Proxy != "" {
		proxy, err := url.Parse(s.Expanded.Proxy)
		if err != nil {
			return nil, errors.New("its proxy cannot be read")
		}
		transport.Proxy = http.ProxyURL(proxy)
		return transport, nil
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
	return transport, nil
}

// barred is a judge's error with what to write where the address is right.
func barred(s plan.Server, err error) error {
	if refused, ok := errors.AsType[*egress.AddressError](err); ok {
		is := netip.PrefixFrom(refused.Address, refused.Address.BitLen())
		return &proxy.Barred{Err: fmt.Errorf("%w; if the server is meant to be there, set addresses: [%q] of mcp_servers.%s in an eval", err, is, s.Name)}
	}
	return err
}

// tellingDial dials for a server, or for what else is named, and records once that the trial
// went out there, or that it was not let.
func tellingDial(dialer *net.Dialer, rec eventRecorder, what, name string, where *url.URL) func(context.Context, string, string) (net.Conn, error) {
	origin := where.Scheme + "://" + where.Host
	tell := func(does string, data map[string]any) {
		data[what], data["origin"] = name, origin
		rec.Event(evidence.Event{Kind: "egress", Where: name, Message: "the runner " + does + " to " + origin, Data: data})
	}
	var connects, refused sync.Once
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, addr)
		if why, ok := errors.AsType[*proxy.Barred](err); ok {
			refused.Do(func() { tell("does not connect", map[string]any{"allowed": false, "why": why.Error()}) })
		} else {
			connects.Do(func() { tell("connects", map[string]any{}) })
		}
		return conn, err
	}
}
