package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/waza-isolate/waza/mcpconfig"
)

// policy defines what one container may reach. Everything else is refused.
type policy struct {
	allowed []mcpconfig.Destination
	own     func(netip.Addr) bool // reports whether an address belongs to the runner's machine
}

// find returns the allowed destination for a host, which must be a lower-case name or an
// address. An entry for the exact name takes precedence over a wildcard.
func (p policy) find(host string, port int) (mcpconfig.Destination, bool) {
	for _, fits := range []func(mcpconfig.Destination) bool{
		func(d mcpconfig.Destination) bool { return d.Name == host },
		func(d mcpconfig.Destination) bool { return covers(d.Name, host) },
		func(d mcpconfig.Destination) bool { return d.Name == "" && literal(d.Range, host) },
	} {
		i := slices.IndexFunc(p.allowed, func(d mcpconfig.Destination) bool { return fits(d) && slices.Contains(d.Ports, port) })
		if i >= 0 {
			return p.allowed[i], true
		}
	}
	return mcpconfig.Destination{}, false
}

// covers reports whether an entry matches a name: exactly, or with a leading "*." any name
// below the rest.
func covers(entry, name string) bool {
	below, wild := strings.CutPrefix(entry, "*")
	if !wild {
		return entry == name
	}
	_, err := mcpconfig.ReadHostName(name)
	return err == nil && len(name) > len(below) && strings.HasSuffix(name, below)
}

func literal(r netip.Prefix, host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && r.Contains(addr)
}

// refuses returns why an address to which a name resolved must not be dialed, or "". A
// non-public address must be allowed by address, and one that serves cloud credentials by
// its exact address.
func (p policy) refuses(a netip.Addr, port int) string {
	kind := kindOf(a, p.own)
	byAddress := slices.ContainsFunc(p.allowed, func(d mcpconfig.Destination) bool {
		return d.Name == "" && slices.Contains(d.Ports, port) && allows(d.Range, a, kind)
	})
	if kind == "" || byAddress {
		return ""
	}
	return notPublic(a, kind) + ", and not allowed by address"
}

// allows reports whether an entry by address covers an address of the given kind.
func allows(in netip.Prefix, a netip.Addr, kind string) bool {
	return in.Contains(a) && (kind != metadata || in.IsSingleIP())
}

func notPublic(a netip.Addr, kind string) string {
	return fmt.Sprintf("%s is not a public address but %s", a, kind)
}

// canonical returns a host in the form that find expects, and false if it cannot be
// allowed.
func canonical(host string) (string, bool) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().String(), addr.Zone() == ""
	}
	name, err := mcpconfig.ReadHostName(host)
	return name, err == nil
}

// block is a range of addresses that are not public.
type block struct {
	class string
	in    netip.Prefix
}

// metadata is the class of addresses where clouds serve credentials.
const metadata = "metadata"

// blocks returns the ranges in IANA's special-purpose address registries that are not
// globally reachable, multicast ranges, and other addresses where clouds serve credentials.
// The first match determines the class.
func blocks() []block {
	var all []block
	for _, ranges := range []struct {
		class string
		in    []string
	}{
		{metadata, []string{"169.254.169.254/32", "169.254.170.2/32", "100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::254/128", "fd20:ce::254/128"}},
		{"unspecified", []string{"0.0.0.0/8", "::/128"}},
		{"loopback", []string{"127.0.0.0/8", "::1/128"}},
		{"private", []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10", "64:ff9b:1::/48"}},
		{"shared (carrier-grade NAT)", []string{"100.64.0.0/10"}},
		{"link-local", []string{"169.254.0.0/16", "fe80::/10"}},
		{"documentation", []string{"192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"}},
		{"benchmarking", []string{"198.18.0.0/15", "2001:2::/48"}},
		{"broadcast", []string{"255.255.255.255/32"}},
		{"multicast", []string{"224.0.0.0/4", "ff00::/8"}},
		{"reserved", []string{"192.0.0.0/24", "192.88.99.0/24", "240.0.0.0/4", "100::/64", "2001::/23", "5f00::/16"}},
	} {
		for _, in := range ranges.in {
			all = append(all, block{ranges.class, netip.MustParsePrefix(in)})
		}
	}
	return all
}

// IPv6 ranges that embed an IPv4 address, to which translators and tunnels deliver.
var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	compatible = netip.MustParsePrefix("::/96")
	global     = netip.MustParsePrefix("2000::/3")
)

// embedded returns the IPv4 address embedded in an IPv6 address.
func embedded(a netip.Addr) (netip.Addr, bool) {
	raw := a.As16()
	switch {
	case a.Is4():
		return a, false
	case nat64.Contains(a), compatible.Contains(a):
		return netip.AddrFrom4([4]byte(raw[12:])), true
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(raw[2:6])), true
	}
	return a, false
}

// class returns why an address is not public, or "".
func class(a netip.Addr) string {
	a = a.Unmap()
	for _, b := range blocks() {
		if b.in.Contains(a) {
			return b.class
		}
	}
	if inner, ok := embedded(a); ok {
		return class(inner)
	}
	if a.Is6() && !global.Contains(a) {
		return "reserved"
	}
	return ""
}

// kindOf returns the class of an address, "this machine's own" if own reports true, or ""
// for any other public address.
func kindOf(a netip.Addr, own func(netip.Addr) bool) string {
	if kind := class(a); kind != "" || !own(a) {
		return kind
	}
	return "this machine's own"
}

// ofThisMachine reports whether an address belongs to the runner's machine, which may have
// services meant only for its own network.
func ofThisMachine(a netip.Addr) bool {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return true // unknown
	}
	return slices.ContainsFunc(addrs, func(own net.Addr) bool {
		prefix, err := netip.ParsePrefix(own.String())
		return err == nil && prefix.Addr().Unmap() == a
	})
}

// AddressError reports that a host name resolved to an address that must not be dialed.
type AddressError struct {
	Address netip.Addr
	Kind    string // why the address is not public
}

func (e *AddressError) Error() string { return notPublic(e.Address, e.Kind) }

// Named is a host named in the eval that the runner itself dials, such as a remote server.
// The owner of a name controls what it resolves to and may change it at any time, so the
// address is checked right before connecting to it.
type Named struct {
	// Host is the host of a URL: a name or an address. An address, or a name that this machine or its
	// network resolves, may lead to any address that does not serve cloud credentials.
	Host string
	// Allowed lists non-public addresses that may be dialed. A range does not include
	// addresses that serve cloud credentials.
	Allowed []netip.Prefix
}

// Judge is a ControlContext function for a [net.Dialer]. It returns an [*AddressError] if
// the address IP:PORT must not be dialed.
func (n Named) Judge(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	a := at.Addr().WithZone("").Unmap()
	kind := kindOf(a, ofThisMachine)
	_, notText := netip.ParseAddr(n.Host) // for an address, the author of the eval alone decides where it leads
	authors := kind != metadata && (notText == nil || mcpconfig.IsNearbyName(n.Host))
	if kind == "" || authors || slices.ContainsFunc(n.Allowed, func(in netip.Prefix) bool { return allows(in, a, kind) }) {
		return nil
	}
	return &AddressError{a, kind}
}
