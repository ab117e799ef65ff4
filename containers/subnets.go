package containers

import (
	"math/rand/v2"
	"net/netip"
	"sync"
)

// subnetPool hands out subnets that no other trial of the run has, each once around
// before one comes again. Where it starts is chance, so that runs side by side seldom
// meet.
type subnetPool struct {
	mu    sync.Mutex
	next  map[netip.Prefix]uint32 // by range; guarded by mu
	ours  map[netip.Prefix]bool   // handed out; guarded by mu
	freed chan struct{}           // closed, and another in its place, when one is given back; guarded by mu
}

func newSubnetPool() *subnetPool {
	return &subnetPool{next: map[netip.Prefix]uint32{}, ours: map[netip.Prefix]bool{}, freed: make(chan struct{})}
}

// take hands out a subnet of a range that is not one of foreign. Where all others are
// handed out already, freed tells when to try again. Where there is none at all, both
// are empty.
func (p *subnetPool) take(from netip.Prefix, foreign map[netip.Prefix]bool) (_ addresses, freed <-chan struct{}) {
	count := uint32(1) << (taskBits - from.Bits())
	p.mu.Lock()
	defer p.mu.Unlock()
	n, ok := p.next[from]
	if !ok {
		n = rand.Uint32N(count)
	}
	for range count {
		subnet := nthSubnet(from, n)
		n = (n + 1) % count
		switch {
		case foreign[subnet]:
		case p.ours[subnet]:
			freed = p.freed
		default:
			p.next[from], p.ours[subnet] = n, true
			return addresses{subnet}, nil
		}
	}
	return addresses{}, freed
}

// giveBack takes a subnet that take handed out.
func (p *subnetPool) giveBack(a addresses) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ours, a.subnet)
	close(p.freed)
	p.freed = make(chan struct{})
}

func nthSubnet(from netip.Prefix, n uint32) netip.Prefix {
	base := from.Masked().Addr().As4()
	value := uint32(base[0])<<24 | uint32(base[1])<<16 | uint32(base[2])<<8 | uint32(base[3])
	value += n << (32 - taskBits)
	addr := netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)})
	return netip.PrefixFrom(addr, taskBits)
}
