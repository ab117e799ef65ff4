package egress

import (
	"context"
	"net/netip"
	"slices"
	"syscall"

	"github.com/waza-isolate/waza/mcpconfig"
)

// AddressError says that a host's name led to an address that is not dialled.
type AddressError struct {
	Address netip.Addr
	Kind    string // what keeps it from being a public one
}

func (e *AddressError) Error() string { return notPublic(e.Address, e.Kind) }

// Named is a host that the eval names and the runner itself dials, such as a remote
// server's. Whoever owns a name says where it leads, otherwise at each question if they
// like; so what is judged is the address that a connection is about to be made to.
type Named struct {
	// Host is of a URL: a name, or the text of an address, which is then dialled unless it
	// hands out credentials.
	Host string
	// Allowed are addresses that are dialled though they are not public. What hands out
	// credentials is not among those of a range.
	Allowed []netip.Prefix
}

// Judge refuses an address, IP:PORT, that may not be dialled for the host, with an
// [*AddressError]. It is what the ControlContext of a [net.Dialer] asks.
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
