package mcpproxy

import (
	"net"
	"net/netip"
	"strings"
)

// serverFor is the server that a Host header names, nil for none. Where there is
// one server only, the names of loopback mean it too: a client may have come
// through a forwarder of its own, as clients do that insist on a local address.
func (p *Proxy) serverFor(host string) *server {
	if s := p.servers[hostName(host)]; s != nil {
		return s
	}
	if len(p.servers) != 1 || !isLoopback(host) {
		return nil
	}
	for _, s := range p.servers {
		return s
	}
	return nil
}

// allowsOrigin is the rule against DNS rebinding; 2025-11-25 basic/transports.
func (p *Proxy) allowsOrigin(s *server, origin string) bool {
	if origin == "" {
		return true
	}
	host, ok := strings.CutPrefix(strings.ToLower(origin), "http://")
	return ok && p.serverFor(host) == s
}

// isLoopback says whether a host, with or without a port, is this machine to
// whoever names it.
func isLoopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(name)
	return err == nil && address.IsLoopback()
}
