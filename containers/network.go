package containers

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/internal/defence"
)

const (
	// defaultRange is the range of task networks. The engine's default pools only have room for
	// about thirty networks.
	defaultRange = "10.213.0.0/16"
	// taskBits is the prefix length of a task network. It is the longest that leaves addresses for
	// servers, which a test puts on the network.
	taskBits = 29
	// maxForeign is how many subnets that are in use by others are skipped.
	maxForeign = 256
)

// parseRange parses the range of task networks; empty is defaultRange.
func parseRange(s string) (netip.Prefix, error) {
	if s == "" {
		s = defaultRange
	}
	p, err := netip.ParsePrefix(s)
	if err == nil && (!p.Addr().Is4() || p.Bits() > taskBits) {
		err = fmt.Errorf("%s is not an IPv4 range with room for a /%d", s, taskBits)
	}
	return p, err
}

// addresses are those of a task network, a /29. The first one belongs to the bridge and is
// unused.
type addresses struct{ subnet netip.Prefix }

func (a addresses) agent() netip.Addr { return a.subnet.Addr().Next().Next() }

// server returns the address of the i-th server if a test disables defence.NoNetworkForServers.
// Otherwise servers have no network.
func (a addresses) server(i int) netip.Addr {
	at := a.agent().Next()
	for range i {
		at = at.Next()
	}
	return at
}

// networks creates the task networks of a run.
type networks struct {
	engine  *engine
	run     string
	subnets *subnetPool
}

// create creates a trial's network: internal, in a free subnet, without an address on the host.
// If other trials of the run use all available subnets, it waits for one. release frees the
// subnet.
func (n *networks) create(ctx context.Context, name, trial, subnets string) (_ addresses, release func(), err error) {
	from, err := parseRange(subnets)
	if err != nil {
		return addresses{}, nil, fmt.Errorf("task network: %w", err)
	}
	foreign := map[netip.Prefix]bool{}
	for len(foreign) < maxForeign {
		a, freed := n.subnets.take(from, foreign)
		if freed != nil {
			select {
			case <-freed:
				continue
			case <-ctx.Done():
				return a, nil, context.Cause(ctx)
			}
		}
		if !a.subnet.IsValid() {
			break
		}
		if err = n.engine.createNetwork(ctx, name, networkOptions(a, labels(n.run, trial, roleNetwork))); err == nil {
			return a, sync.OnceFunc(func() { n.subnets.giveBack(a) }), nil
		}
		n.subnets.giveBack(a)
		if !strings.Contains(err.Error(), "Pool overlaps") { // the engine reports no error class for it
			return a, nil, fmt.Errorf("task network: %w", err)
		}
		foreign[a.subnet] = true
	}
	return addresses{}, nil, fmt.Errorf("task network: no free subnet in %s after %d tries; set config.isolation.subnets to another range: %w", from, len(foreign), err)
}

// networkOptions returns the options of a network that leads nowhere: the engine does not route
// from it, and the host has no address on it.
func networkOptions(a addresses, labels map[string]string) client.NetworkCreateOptions {
	off := false
	return client.NetworkCreateOptions{
		Driver:     "bridge",
		Internal:   true,
		EnableIPv6: &off,
		IPAM:       &network.IPAM{Driver: "default", Config: []network.IPAMConfig{{Subnet: a.subnet}}},
		Options:    map[string]string{"com.docker.network.bridge.inhibit_ipv4": strconv.FormatBool(defence.NoHostAddress)},
		Labels:     labels,
	}
}

// subnetPool hands out subnets within a run. It starts at a random one, so that concurrent runs
// rarely collide, and reuses one only after all others.
type subnetPool struct {
	mu    sync.Mutex
	next  map[netip.Prefix]uint32 // by range; guarded by mu
	ours  map[netip.Prefix]bool   // in use; guarded by mu
	freed chan struct{}           // closed and replaced when a subnet is returned; guarded by mu
}

func newSubnetPool() *subnetPool {
	return &subnetPool{next: map[netip.Prefix]uint32{}, ours: map[netip.Prefix]bool{}, freed: make(chan struct{})}
}

// take returns a subnet of a range that is not one of foreign. If all others are in use, it
// returns a channel that is closed when one is returned. If there is none at all, both results
// are zero.
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

// giveBack returns a subnet to the pool.
func (p *subnetPool) giveBack(a addresses) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ours, a.subnet)
	close(p.freed)
	p.freed = make(chan struct{})
}

func nthSubnet(from netip.Prefix, n uint32) netip.Prefix {
	base := from.Masked().Addr().As4()
	value := binary.BigEndian.Uint32(base[:]) + n<<(32-taskBits)
	binary.BigEndian.PutUint32(base[:], value)
	return netip.PrefixFrom(netip.AddrFrom4(base), taskBits)
}

// taskNetwork is the network of a running trial.
type taskNetwork struct {
	name    string // empty if the trial has no network
	engine  *engine
	release func() // returns the subnet; nil before it is taken
	leave   func() // stops watching; nil before it has started

	mu  sync.Mutex
	cut bool // the agent's container was disconnected by somebody; guarded by mu
}

// end stops watching.
func (n *taskNetwork) end() {
	if n.leave != nil {
		n.leave()
	}
}

// giveBack returns the subnet.
func (n *taskNetwork) giveBack() {
	if n.release != nil {
		n.release()
	}
}

func (n *taskNetwork) setCut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = true
}

func (n *taskNetwork) wasCut() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut
}

// lost reports whether a running container is no longer on its network. It asks the engine,
// because the event may arrive late.
func (n *taskNetwork) lost(ctx context.Context, id string) bool {
	if n.name == "" {
		return false
	}
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	found, err := n.engine.NetworkInspect(asking, n.name, client.NetworkInspectOptions{})
	if err != nil {
		return errdefs.IsNotFound(err)
	}
	_, there := found.Network.Containers[id]
	return !there && n.engine.running(ctx, id)
}
