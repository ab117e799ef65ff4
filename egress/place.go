package egress

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/mcpconfig"
)

// Place is an address of a container's loopback where connections are accepted.
type Place struct {
	At netip.AddrPort
	// Host is the name, or the names as in "*.example.com", that resolve to it in the
	// container; empty for the HTTP proxy.
	Host string
}

// maxNames is how many names a container can reach. Each has an address in 127.0.3.0/24, whose
// last address is the proxy's.
const maxNames = 253

func address(last int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 3, byte(last)}) }

func proxyAt() netip.AddrPort {
	return netip.AddrPortFrom(address(maxNames+1), mcpconfig.EgressProxyPort)
}

// Names returns the names that resolve in a container with the destinations allowed, and their
// addresses. A name with a leading "*." stands for all below it.
func Names(allowed []mcpconfig.Destination) map[string]netip.Addr {
	names := map[string]netip.Addr{}
	for _, d := range allowed {
		if _, known := names[d.Name]; d.Name != "" && !known {
			names[d.Name] = address(len(names) + 1)
		}
	}
	return names
}

// Places returns where a container's connections are accepted; none if it may reach nothing.
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

// Env returns the environment of a container's programs: where the proxy is, and that the trial's
// own hosts are not reached through it. It is nil if the container may reach nothing.
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
