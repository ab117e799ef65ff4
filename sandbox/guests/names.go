package guests

import (
	"fmt"
	"maps"
	"net/netip"
	"strings"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guest"
)

// Airtight is the address at which the agent's guest listens if there is no network.
var Airtight = netip.MustParseAddr("127.0.1.1")

// serviceAddr returns the loopback address of the i-th service in a server's container.
func serviceAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 2, byte(i + 1)}) }

// serverOf returns the server in a container; the zero value if there is none.
func serverOf(t *plan.Trial, ctr string) (s plan.Server) {
	for _, server := range t.Servers {
		if server.Name == ctr {
			return server
		}
	}
	return s
}

// named returns the addresses of the names that a container may use: servers for the agent,
// services for a server, and the egress of both, at loopback addresses. A name "*.x" stands for
// all names below x. servers is the address of servers for the agent.
func named(t *plan.Trial, ctr string, servers netip.Addr) map[string]netip.Addr {
	if ctr == sandbox.Agent && !t.ServersOnly {
		names := egress.Names(t.Agent.Egress)
		for _, server := range t.Servers {
			names[server.Host()] = servers
		}
		return names
	}
	server := serverOf(t, ctr)
	names := egress.Names(server.Egress)
	for i, service := range server.Services {
		names[service.Name] = serviceAddr(i)
	}
	return names
}

// Hosts returns the entries of a container's /etc/hosts except localhost. They are needed
// because the resolver only answers over TCP, which some C libraries do not support. servers is
// the address of servers for the agent.
func Hosts(t *plan.Trial, ctr string, servers netip.Addr) map[string]netip.Addr {
	hosts := named(t, ctr, servers)
	maps.DeleteFunc(hosts, func(name string, _ netip.Addr) bool { return strings.HasPrefix(name, "*.") })
	if ctr == sandbox.Agent && t.AsksRunner() {
		hosts[sandbox.ModelHost] = servers
	}
	return hosts
}

// Names returns the names that resolve in a container. servers is the address of servers for the
// agent.
func Names(t *plan.Trial, ctr string, servers netip.Addr) map[string][]netip.Addr {
	names := map[string][]netip.Addr{"localhost": {netip.MustParseAddr("127.0.0.1")}}
	if !defence.NamesOfTrial {
		names["host.docker.internal"] = []netip.Addr{netip.MustParseAddr("192.0.2.123")}
	}
	for name, at := range named(t, ctr, servers) {
		names[name] = []netip.Addr{at}
	}
	return names
}

// dnsEvent returns the event for a container's DNS question.
func dnsEvent(ctr string, q guest.Question) evidence.Event {
	answer := "NXDOMAIN"
	if q.Answered {
		answer = "answered"
	}
	return evidence.Event{
		Kind: "dns", Where: ctr, Message: fmt.Sprintf("%s %s: %s", q.Type, q.Name, answer),
		Data: map[string]any{"name": q.Name, "type": q.Type, "answered": q.Answered},
	}
}
