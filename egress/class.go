package egress

import (
	"net"
	"net/netip"
	"slices"
)

// block is a range of addresses that nothing public is reached at.
type block struct {
	class string
	in    netip.Prefix
}

// metadata is the class of addresses where clouds answer with credentials.
const metadata = "metadata"

// blocks are the ranges of IANA's registries of special-purpose addresses that are not
// globally reachable, with those of multicast, and the addresses outside of them where
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

// embedded is the IPv4 address that an IPv6 address stands for.
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

// class tells what keeps an address from being a public one; empty for nothing.
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

// kindOf is the class of an address, or that own has it for one of this machine; empty for
// a public one elsewhere.
func kindOf(a netip.Addr, own func(netip.Addr) bool) string {
	if kind := class(a); kind != "" || !own(a) {
		return kind
	}
	return "this machine's own"
}

// ofThisMachine says whether an address is one of the machine that the runner is on,
// which may listen there for its own network alone.
func ofThisMachine(a netip.Addr) bool {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return true // it cannot be told
	}
	return slices.ContainsFunc(addrs, func(own net.Addr) bool {
		prefix, err := netip.ParsePrefix(own.String())
		return err == nil && prefix.Addr().Unmap() == a
	})
}
