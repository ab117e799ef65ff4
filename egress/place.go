package egress

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/mcpconfig"
)

// Place is a loopback address in a container where connections are accepted.
type Place struct {
	At netip.AddrPort
	// Host is the name, or a pattern such as "*.example.com", that resolves to the address
	// in the container; empty for the HTTP proxy.
	Host string
}

// maxNames is the maximum number of names that a container can reach. Each has an address
// in 127.0.3.0/24; the last address is the proxy's.
const maxNames = 253

func address(last int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 3, byte(last)}) }

func proxyAt() netip.AddrPort {
	return netip.AddrPortFrom(address(maxNames+1), mcpconfig.EgressProxyPort)
}

// Names returns the addresses to which the allowed names resolve in a container. A name
// with a leading "*." stands for all names below it.
func Names(allowed []mcpconfig.Destination) map[string]netip.Addr {
	names := map[string]netip.Addr{}
	for _, d := range allowed {
		if _, known := names[d.Name]; d.Name != "" && !known {
			names[d.Name] = address(len(names) + 1)
		}
	}
	return names
}

// Places returns where a container's connections are accepted, or nil if nothing is
// allowed.
func Places(allowed []mcpconfig.Destination) []Place {
	if len(allowed) == 0 {
		return nil
	}
	names := Names(allowed)
	places := []Place{{At: proxyAt()}}
	for _, d := range allowed {
		if d.Name == "" {
			continue // reachable only through the proxy
		}
		for _, port := range d.Ports {
			places = append(places, Place{netip.AddrPortFrom(names[d.Name], uint16(port)), d.Name})
		}
	}
	return places
}

// Env returns the proxy settings for the environment of a container's programs, with the
// trial's own hosts excluded. It returns nil if nothing is allowed.
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
