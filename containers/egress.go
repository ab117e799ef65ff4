package containers

import (
	"context"
	"net"
	"net/netip"
	"strings"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

var _ sandbox.Outlet = (*trialSandbox)(nil)

// ListenAt implements sandbox.Outlet.
func (s *trialSandbox) ListenAt(ctx context.Context, ctr string, at netip.AddrPort) (net.Listener, error) {
	b, err := s.container(ctr)
	if err != nil {
		return nil, err
	}
	return b.guest.Listen(ctx, at.String())
}

// egressOf is what a container may reach outside.
func egressOf(t *plan.Trial, ctr string) []mcpconfig.Destination {
	if ctr == sandbox.Agent && !t.ServersOnly {
		return t.Agent.Egress
	}
	for _, server := range t.Servers {
		if server.Name == ctr {
			return server.Egress
		}
	}
	return nil
}

// hostsOfEgress are entries of a container's hosts file. Its resolver speaks TCP alone, which
// not every libc does.
func hostsOfEgress(allowed []mcpconfig.Destination) (hosts []string) {
	for name, at := range egress.Names(allowed) {
		if !strings.HasPrefix(name, "*.") {
			hosts = append(hosts, name+":"+at.String())
		}
	}
	return hosts
}
