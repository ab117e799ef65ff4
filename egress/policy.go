package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/mcpconfig"
)

// policy says what one container may reach. What is not in it is refused.
type policy struct {
	allowed []mcpconfig.Destination
	own     func(netip.Addr) bool // an address of the runner's machine
}

// find is the destination that a host stands for, which is a name in lower case or the
// text of an address. A name that stands there itself goes before those that a * stands
// for.
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

// covers says whether a name is one that an entry stands for: itself, or with a leading
// "*." any below the rest.
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

// refuses says why an address is not dialled that a name resolved to; empty where it
// is. What is not public needs an entry that has it by address, and what hands out
// credentials an entry of its own.
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

// allows says whether an entry by address is one for an address of a kind.
func allows(in netip.Prefix, a netip.Addr, kind string) bool {
	return in.Contains(a) && (kind != metadata || in.IsSingleIP())
}

func notPublic(a netip.Addr, kind string) string {
	return fmt.Sprintf("%s is no public address but %s", a, kind)
}

// canonical is a host as find takes it; false where it is none that could be allowed.
func canonical(host string) (string, bool) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().String(), addr.Zone() == ""
	}
	name, err := mcpconfig.ReadHostName(host)
	return name, err == nil
}
