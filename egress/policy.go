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

// policy says what one container may reach. What is not in it is refused.
type policy struct {
	allowed []mcpconfig.Destination
	own     func(netip.Addr) bool // an address of the runner's machine
}

// find returns the allowed destination of a host, which is a name in lower case or the text of
// an address. An entry for the name itself goes before one with a *.
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

// covers reports whether an entry stands for a name: its own, or with a leading "*." any below
// the rest.
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

// refuses says why an address that a name resolved to is not dialled; empty if it is. An address
// that is not public needs an entry by address, and one that hands out credentials an entry of
// its own.
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

// allows reports whether an entry by address stands for an address of a kind.
func allows(in netip.Prefix, a netip.Addr, kind string) bool {
	return in.Contains(a) && (kind != metadata || in.IsSingleIP())
}

func notPublic(a netip.Addr, kind string) string {
	return fmt.Sprintf("%s is no public address but %s", a, kind)
}

// canonical returns a host as find takes it; false if it could not be allowed.
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

// metadata is the class of addresses where clouds answer with credentials.
const metadata = "metadata"

// blocks returns the ranges of IANA's registries of special-purpose addresses that are not
// globally reachable, those of multicast, and the addresses outside of them where
// clouds answer with credentials. The first that fits names the class.
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

// Forms of IPv6 addresses that stand for an IPv4 address: translators and tunnels
// deliver there.
var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	compatible = netip.MustParsePrefix("::/96")
	global     = netip.MustParsePrefix("2000::/3")
)

// embedded returns the IPv4 address that an IPv6 address stands for.
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

// class returns what keeps an address from being public; empty for a public one.
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

// kindOf returns the class of an address, or that it is one of this machine's by own; empty for a
// public one elsewhere.
func kindOf(a netip.Addr, own func(netip.Addr) bool) string {
	if kind := class(a); kind != "" || !own(a) {
		return kind
	}
	return "this machine's own"
}

// ofThisMachine reports whether an address is one of the runner's machine, which may listen there
// for its own network alone.
func ofThisMachine(a netip.Addr) bool {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return true // it is not known
	}
	return slices.ContainsFunc(addrs, func(own net.Addr) bool {
		prefix, err := netip.ParsePrefix(own.String())
		return err == nil && prefix.Addr().Unmap() == a
	})
}

// AddressError says that a host's name led to an address that is not dialled.
type AddressError struct {
	Address netip.Addr
	Kind    string // what keeps it from being a public one
}

func (e *AddressError) Error() string { return notPublic(e.Address, e.Kind) }

// Named is a host that the eval names and the runner itself dials, such as a remote
// server's. Whoever owns a name decides where it leads, and may answer differently each time. So
// the address that is checked is the one that a connection is about to be made to.
type Named struct {
	// Host is a URL's: a name, or the text of an address, which is dialled unless it hands out
	// credentials.
	Host string
	// Allowed are addresses that are dialled though they are not public. A range does not
	// include those that hand out credentials.
	Allowed []netip.Prefix
}

// Judge is the ControlContext of a [net.Dialer] for the host. It refuses an address, IP:PORT,
// that may not be dialled, with an [*AddressError].
func (n Named) Judge(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	a := at.Addr().WithZone("").Unmap()
	kind := kindOf(a, ofThisMachine)
	_, notText := netip.ParseAddr(n.Host) // nobody but who wrote it says where a text of an address is
	authors := kind != metadata && (notText == nil || mcpconfig.IsNearbyName(n.Host))
	if kind == "" || authors || slices.ContainsFunc(n.Allowed, func(in netip.Prefix) bool { return allows(in, a, kind) }) {
		return nil
	}
	return &AddressError{a, kind}
}
