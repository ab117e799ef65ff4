package egress

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/mcpconfig"
)

// Place is an address of a container's loopback where connections are taken in.
type Place struct {
	At netip.AddrPort
	// Host is the name, or the names as in "*.example.com", that resolve to it in the
	// container; empty for the HTTP proxy.
	Host string
}

// MaxNames is how many names a container can have that it reaches: each has an address in
// 127.0.3.0/24, of which the last is the proxy's.
const MaxNames = 253

func address(last int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 3, byte(last)}) }

func proxyAt() netip.AddrPort {
	return netip.AddrPortFrom(address(MaxNames+1), mcpconfig.EgressProxyPort)
}

// Names is what resolves in a container that may reach some hosts: a name, or with a leading
// "*." all below it, and where that is.
func Names(allowed []mcpconfig.Destination) map[string]netip.Addr {
	names := map[string]netip.Addr{}
	for _, d := range allowed {
		if _, known := names[d.Name]; d.Name != "" && !known {
			names[d.Name] = address(len(names) + 1)
		}
	}
	return names
}

// Places is where a container's connections are taken in; nowhere where it may reach nothing.
func Places(allowed []mcpconfig.Destination) []Place {
	if len(allowed) == 0 {
		return nil
	}
	names := Names(allowed)
	places := []Place{{At: proxyAt()}}
	for _, d := range allowed {
		if d.Name == "" {
			continue // no name leads there: the proxy does
		}
		for _, port := range d.Ports {
			places = append(places, Place{netip.AddrPortFrom(names[d.Name], uint16(port)), d.Name})
		}
	}
	return places
}

// Env is what the programs of a container find in their environment: where the proxy is, and
// that what the trial has itself is not reached through it. It is nil where the container may
// reach nothing.
func Env(allowed []mcpconfig.Destination, own []string) map[string]string {
	if len(allowed) == 0 {
		return nil
	}
	proxy := "http://" + proxyAt().String()
	direct := strings.Join(append(slices.Clone(own), "localhost", "127.0.0.1", "::1", "127.0.0.0/8"), ",")
	return map[string]string{
		"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "NO_PROXY": direct,
		"http_proxy": proxy, "https_proxy": proxy, "no_proxy": direct,
		"NODE_USE_ENV_PROXY": "1",
	}
}
