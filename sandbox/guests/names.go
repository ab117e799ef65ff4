package guests

import (
	"fmt"
	"maps"
	"net/netip"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guest"
)

// Airtight is the address at which the agent's guest listens if there is no network.
var Airtight = netip.MustParseAddr("127.0.1.1")

// serviceAddr returns the loopback address of the i-th service in a server's container.
func serviceAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 2, byte(i + 1)}) }

// named returns the addresses of the names that a container may use: those of its edges, and those
// of hosts outside, at its loopback. A name "*.x" stands for all names below x. servers is the
// address of servers for the agent.
func named(in *sandbox.Spec, ctr string, servers netip.Addr) map[string]netip.Addr {
	names := map[string]netip.Addr{}
	if c := in.Container(ctr); c != nil {
		maps.Copy(names, c.Outside)
	}
	for i, e := range in.From(ctr) {
		if ctr == sandbox.Agent {
			names[e.Name] = servers
		} else {
			names[e.Name] = serviceAddr(i)
		}
	}
	return names
}

// Hosts returns the entries of a container's /etc/hosts except localhost. They are needed
// because the resolver only answers over TCP, which some C libraries do not support. servers is
// the address of servers for the agent.
func Hosts(in *sandbox.Spec, ctr string, servers netip.Addr) map[string]netip.Addr {
	hosts := named(in, ctr, servers)
	maps.DeleteFunc(hosts, func(name string, _ netip.Addr) bool { return strings.HasPrefix(name, "*.") })
	return hosts
}

// Names returns the names that resolve in a container. servers is the address of servers for the
// agent.
func Names(in *sandbox.Spec, ctr string, servers netip.Addr) map[string][]netip.Addr {
	names := map[string][]netip.Addr{"localhost": {netip.MustParseAddr("127.0.0.1")}}
	if !defence.NamesOfTrial {
		names["host.docker.internal"] = []netip.Addr{netip.MustParseAddr("192.0.2.123")}
	}
	for name, at := range named(in, ctr, servers) {
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
