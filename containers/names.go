package containers

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/network"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guests"
)

// serversAt returns the address at which the agent's guest listens for connections to servers
// and models.
func (p trialPlan) serversAt(a addresses) netip.Addr {
	if p.network == "" {
		return guests.Airtight
	}
	return a.agent()
}

// withAddress returns a container of the plan with its address on the task network and its entries
// in /etc/hosts.
func (p trialPlan) withAddress(c containerPlan, t *sandbox.Spec, a addresses) containerPlan {
	servers := p.serversAt(a)
	for name, at := range guests.Hosts(t, c.Name, servers) {
		c.host.ExtraHosts = append(c.host.ExtraHosts, name+":"+at.String())
	}
	slices.Sort(c.host.ExtraHosts)
	if c.Name == sandbox.Agent && p.network != "" {
		c.addr = servers
		if !defence.NoIPv6 {
			c.host.Sysctls["net.ipv6.conf.all.disable_ipv6"] = "0"
		}
	}
	if !defence.NoNetworkForServers && c.Role == sandbox.RoleServer {
		c.addr = a.server(slices.IndexFunc(t.Containers, func(s sandbox.ContainerSpec) bool { return s.Name == c.Name }))
	}
	return c
}

// isOnNetwork reports whether a container is on the task network, if there is one.
func isOnNetwork(ctr string) bool {
	return ctr == sandbox.Agent || !defence.NoNetworkForServers
}

// networking returns the container's endpoint on the task network called name.
func (c containerPlan) networking(name string) *network.NetworkingConfig {
	if !c.addr.IsValid() {
		return nil
	}
	return &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{
		name: {IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: c.addr}},
	}}
}

// resolvConf makes the guest the only name server of a container. It answers over TCP.
const resolvConf = "nameserver 127.0.0.1\nsearch .\noptions use-vc\n"

// hostsFile returns the content of /etc/hosts (hosts(5)) for entries in the engine's format,
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

// fileName converts a container's name for use in names of containers and files.
func fileName(ctr string) string { return strings.ReplaceAll(ctr, "/", ".") }

// volumeName returns the name of a volume. Containers see it in their list of mounts, so it does
// not name the run or its eval; the volume's labels do.
func volumeName(role, of string) string {
	if !defence.HiddenNames {
		return "waza-" + of + "-" + role
	}
	return fmt.Sprintf("waza-%s-%.12x", role, sha256.Sum256([]byte(of)))
}
