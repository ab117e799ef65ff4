package containers

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/network"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// airtightAddr is where the agent's own guest accepts connections when there is no network.
var airtightAddr = netip.MustParseAddr("127.0.1.1")

// serversAt returns the address at which the agent's own guest accepts what the agent sends
// to its servers and models.
func (p trialPlan) serversAt(a addresses) netip.Addr {
	if p.network == "" {
		return airtightAddr
	}
	return a.agent()
}

// placed returns a container of the plan with its address on the task network and its
// entries in the hosts file.
func (p trialPlan) placed(c containerPlan, t *plan.Trial, a addresses) containerPlan {
	c.host.ExtraHosts = hostsOfEgress(egressOf(t, c.container))
	switch c.container {
	case sandbox.Agent:
		target := p.serversAt(a)
		if p.network != "" {
			c.addr = target
			if !defence.NoIPv6 {
				c.host.Sysctls["net.ipv6.conf.all.disable_ipv6"] = "0"
			}
		}
		if t.AsksRunner() {
			c.host.ExtraHosts = append(c.host.ExtraHosts, sandbox.ModelHost+":"+target.String())
		}
		for _, server := range t.Servers {
			c.host.ExtraHosts = append(c.host.ExtraHosts, server.Host()+":"+target.String())
		}
	default:
		for i, server := range t.Servers {
			if !defence.NoNetworkForServers && server.Name == c.container {
				c.addr = a.server(i)
			}
		}
		for name, at := range serviceAddresses(t, c.container) {
			c.host.ExtraHosts = append(c.host.ExtraHosts, name+":"+at.String())
		}
		slices.Sort(c.host.ExtraHosts)
	}
	return c
}

// isOnNetwork reports whether a container is on the task network, if there is one.
func isOnNetwork(ctr string) bool {
	return ctr == sandbox.Agent || !defence.NoNetworkForServers
}

// networking returns the container's endpoint on the task network of that name.
func (c containerPlan) networking(name string) *network.NetworkingConfig {
	if !c.addr.IsValid() {
		return nil
	}
	return &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{
		name: {IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: c.addr.String()}},
	}}
}

// serviceAddr returns where a server's container has its i-th service: on loopback,
// where its own guest accepts connections.
func serviceAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 2, byte(i + 1)}) }

// serviceAddresses returns the services that a container reaches, by name: those of the
// server that runs there.
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

// egressOf returns what a container may reach outside.
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

// hostsOfEgress returns entries of a container's hosts file. Its resolver speaks TCP alone,
// which not every libc does.
func hostsOfEgress(allowed []mcpconfig.Destination) (hosts []string) {
	for name, at := range egress.Names(allowed) {
		if !strings.HasPrefix(name, "*.") {
			hosts = append(hosts, name+":"+at.String())
		}
	}
	return hosts
}

// namesIn returns what resolves in a container: for the agent its servers, for a server its
// services, and for both what they may reach outside, at their own loopback. The agent
// finds its servers at the address given.
func namesIn(ctr string, t *plan.Trial, servers netip.Addr) map[string][]netip.Addr {
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

// resolvConf makes the guest the only name server of a container. It answers over TCP.
const resolvConf = "nameserver 127.0.0.1\nsearch .\noptions use-vc\n"

// hostsFile returns an /etc/hosts (hosts(5)) with entries as the engine takes them,
// NAME:ADDRESS.
func hostsFile(entries []string) string {
	var b strings.Builder
	b.WriteString("127.0.0.1\tlocalhost\n")
	for _, entry := range entries {
		name, at, _ := strings.Cut(entry, ":")
		fmt.Fprintf(&b, "%s\t%s\n", at, name)
	}
	return b.String()
}

// fileName returns a container's name as part of a container's or a file's.
func fileName(ctr string) string { return strings.ReplaceAll(ctr, "/", ".") }
