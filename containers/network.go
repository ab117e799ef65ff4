package containers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/retry"
)

// defaultRange is where task networks are cut from. The engine's own pools end
// at some thirty networks.
const defaultRange = "10.213.0.0/16"

// taskBits is the size of a task network, in bits of its prefix: the smallest that also has
// room for servers where a test puts them on it.
const taskBits = 29

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

// maxForeign is how many subnets that others have are stepped over.
const maxForeign = 256

// createNetwork makes a trial's network: internal, without an address on the
// host, in a subnet that is free. Where other trials of the run have all that others
// do not, it waits until one of them is done. Release gives the subnet back.
func (b *Backend) createNetwork(ctx context.Context, name, trial, subnets string) (_ addresses, release func(), err error) {
	from, err := parseRange(subnets)
	if err != nil {
		return addresses{}, nil, fmt.Errorf("task network: %w", err)
	}
	foreign := map[netip.Prefix]bool{}
	for len(foreign) < maxForeign {
		a, freed := b.subnets.take(from, foreign)
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
		if err = b.engine.createNetwork(ctx, name, networkOptions(a, labels(b.run, trial, roleNetwork))); err == nil {
			return a, sync.OnceFunc(func() { b.subnets.giveBack(a) }), nil
		}
		b.subnets.giveBack(a)
		if !strings.Contains(err.Error(), "Pool overlaps") { // the engine has no class for it
			return a, nil, fmt.Errorf("task network: %w", err)
		}
		foreign[a.subnet] = true
	}
	return addresses{}, nil, fmt.Errorf("task network: no free subnet in %s after %d tries; set config.isolation.subnets to another range: %w", from, len(foreign), err)
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
		Options:    map[string]string{"com.docker.network.bridge.inhibit_ipv4": strconv.FormatBool(defence.NoHostAddress)},
		Labels:     labels,
	}
}

func (e *engine) createNetwork(ctx context.Context, name string, o network.CreateOptions) error {
	done, err := e.networkTurn(ctx)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := creating(ctx)
	defer cancel()
	_, err = e.NetworkCreate(ctx, name, o)
	return err
}

// detachTime is how long what is attached to a network may take to leave it.
const detachTime = 5 * time.Second

// removeNetwork waits for what is about to leave the network, as containers that are being
// removed are.
func (e *engine) removeNetwork(ctx context.Context, id string) error {
	for until := time.Now().Add(detachTime); ; {
		err := e.removeNetworkOnce(ctx, id)
		if !errdefs.IsPermissionDenied(err) || time.Now().After(until) { // "has active endpoints"
			return err
		}
		if late := retry.Sleep(ctx, 50*time.Millisecond); late != nil {
			return errors.Join(err, late)
		}
	}
}

func (e *engine) removeNetworkOnce(ctx context.Context, id string) error {
	done, err := e.networkTurn(ctx)
	if err != nil {
		return err
	}
	defer done()
	return e.NetworkRemove(ctx, id)
}

// networkTurn waits until the engine is free to make or remove a network.
func (e *engine) networkTurn(ctx context.Context) (done func(), err error) {
	select {
	case e.networking <- struct{}{}:
		return func() { <-e.networking }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// removeNetworks removes all that match and joins what went wrong.
func (e *engine) removeNetworks(ctx context.Context, which filter) error {
	found, err := e.NetworkList(ctx, network.ListOptions{Filters: which.args()})
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range found {
		errs = append(errs, ignoreGone(e.removeNetwork(ctx, n.ID)))
	}
	return errors.Join(errs...)
}
