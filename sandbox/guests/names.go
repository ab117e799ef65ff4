package guests

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guest"
)

// Airtight is the address at which the agent's guest listens if there is no network.
var Airtight = netip.MustParseAddr("127.0.1.1")

// serviceAddr returns the loopback address of the i-th service in a server's container.
func serviceAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 2, byte(i + 1)}) }

// serviceAddresses returns the addresses of the services of the server in a container, by name.
func serviceAddresses(t *plan.Trial, ctr string) map[string]netip.Addr {
	addresses := map[string]netip.Addr{}
	for _, server := range t.Servers {
		if server.Name == ctr {
			for i, service := range server.Services {
				addresses[service.Name] = serviceAddr(i)
			}
		}
	}
	return addresses
}

// portsOf returns the ports of a server's service.
func portsOf(t *plan.Trial, server, service string) []int {
	for _, srv := range t.Servers {
		for _, svc := range srv.Services {
			if srv.Name == server && svc.Name == service {
				return svc.Ports
			}
		}
	}
	return nil
}

// egressOf returns the egress of a container.
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

// Host is an entry of /etc/hosts.
type Host struct {
	Name string
	At   netip.Addr
}

// Hosts returns the entries of a container's /etc/hosts except localhost. They are needed
// because the resolver only answers over TCP, which some C libraries do not support. servers is
// the address of servers for the agent.
func Hosts(t *plan.Trial, ctr string, servers netip.Addr) (hosts []Host) {
	for name, at := range egress.Names(egressOf(t, ctr)) {
		if !strings.HasPrefix(name, "*.") {
			hosts = append(hosts, Host{name, at})
		}
	}
	if ctr != sandbox.Agent {
		for name, at := range serviceAddresses(t, ctr) {
			hosts = append(hosts, Host{name, at})
		}
		return hosts
	}
	if t.AsksRunner() {
		hosts = append(hosts, Host{sandbox.ModelHost, servers})
	}
	for _, server := range t.Servers {
		hosts = append(hosts, Host{server.Host(), servers})
	}
	return hosts
}

// Names returns the names that resolve in a container: servers for the agent, services for a
// server, and the egress of both, at loopback addresses. servers is the address of servers for
// the agent.
func Names(t *plan.Trial, ctr string, servers netip.Addr) map[string][]netip.Addr {
	names := map[string][]netip.Addr{"localhost": {netip.MustParseAddr("127.0.0.1")}}
	if !defence.NamesOfTrial {
		names["host.docker.internal"] = []netip.Addr{netip.MustParseAddr("192.0.2.123")}
	}
	for name, at := range egress.Names(egressOf(t, ctr)) {
		names[name] = []netip.Addr{at}
	}
	if ctr != sandbox.Agent {
		for name, at := range serviceAddresses(t, ctr) {
			names[name] = []netip.Addr{at}
		}
		return names
	}
	for _, server := range t.Servers {
		names[server.Host()] = []netip.Addr{servers}
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
