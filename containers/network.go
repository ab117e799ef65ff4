package containers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"

	"github.com/docker/docker/api/types/network"
)

// defaultRange is where task networks are cut from. The engine's own pools end
// at some thirty networks.
const defaultRange = "10.213.0.0/16"

// taskBits is the size of a task network: bridge, relay, agent and no room.
const taskBits = 29

// subnetPool hands out subnets, each once around before one comes again. Where
// it starts is chance, so that runs side by side seldom meet.
type subnetPool struct {
	mu   sync.Mutex
	next map[netip.Prefix]uint32 // guarded by mu
}

func newSubnetPool() *subnetPool { return &subnetPool{next: map[netip.Prefix]uint32{}} }

func (p *subnetPool) take(from netip.Prefix) addresses {
	count := uint32(1) << (taskBits - from.Bits())
	p.mu.Lock()
	defer p.mu.Unlock()
	n, ok := p.next[from]
	if !ok {
		n = rand.Uint32N(count)
	}
	p.next[from] = (n + 1) % count
	base := from.Masked().Addr().As4()
	value := uint32(base[0])<<24 | uint32(base[1])<<16 | uint32(base[2])<<8 | uint32(base[3])
	value += n << (32 - taskBits)
	addr := netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)})
	return addresses{netip.PrefixFrom(addr, taskBits)}
}

// parseRange reads where task networks may be cut from.
func parseRange(s string) (netip.Prefix, error) {
	if s == "" {
		s = defaultRange
	}
	p, err := netip.ParsePrefix(s)
	if err == nil && (!p.Addr().Is4() || p.Bits() > taskBits) {
		err = fmt.Errorf("%s is no IPv4 range with room for a /%d", s, taskBits)
	}
	return p, err
}

// createNetwork makes a trial's network: internal, without an address on the
// host, in a subnet that is free.
func (b *Backend) createNetwork(ctx context.Context, name, trial, subnets string) (addresses, error) {
	from, err := parseRange(subnets)
	if err != nil {
		return addresses{}, fmt.Errorf("task network: %w", err)
	}
	tries := min(1<<(taskBits-from.Bits()), 256)
	for range tries {
		a := b.subnets.take(from)
		err = b.engine.createNetwork(ctx, name, networkOptions(a, labels(b.run, trial, roleNetwork)))
		if err == nil {
			return a, nil
		}
		if !strings.Contains(err.Error(), "Pool overlaps") { // the engine has no class for it
			return addresses{}, fmt.Errorf("task network: %w", err)
		}
	}
	return addresses{}, fmt.Errorf("task network: no free subnet in %s after %d tries; set config.isolation.subnets to another range: %w", from, tries, err)
}

// networkOptions is a network that leads nowhere: the engine routes nothing from
// it, and the host has no address on it.
func networkOptions(a addresses, labels map[string]string) network.CreateOptions {
	off := false
	return network.CreateOptions{
		Driver:     "bridge",
		Internal:   true,
		EnableIPv6: &off,
		IPAM:       &network.IPAM{Driver: "default", Config: []network.IPAMConfig{{Subnet: a.subnet.String()}}},
		Options:    map[string]string{"com.docker.network.bridge.inhibit_ipv4": "true"},
		Labels:     labels,
	}
}

func (e *engine) createNetwork(ctx context.Context, name string, o network.CreateOptions) error {
	ctx, cancel := creating(ctx)
	defer cancel()
	_, err := e.NetworkCreate(ctx, name, o)
	return err
}

// removeNetworks removes all that match and joins what went wrong.
func (e *engine) removeNetworks(ctx context.Context, which filter) error {
	found, err := e.NetworkList(ctx, network.ListOptions{Filters: which.args()})
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range found {
		errs = append(errs, ignoreGone(e.NetworkRemove(ctx, n.ID)))
	}
	return errors.Join(errs...)
}
