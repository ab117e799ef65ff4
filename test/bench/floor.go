package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"
)

const (
	subnetSize = 8 // addresses; as in the network of a task
	// subnetTries limits the number of subnets to try if the address range is taken.
	subnetTries = 64
)

// floor creates the network and then the containers of a shape in parallel with plain
// engine calls, removes them again, and returns how long that took.
func (b *bench) floor(ctx context.Context, s shape) (_ time.Duration, err error) {
	name := fmt.Sprintf("waza-%s-floor-%08x", b.run, rand.Uint32())
	began := time.Now()
	var subnet netip.Prefix
	if s.network != nil {
		if subnet, err = b.makeNetwork(ctx, name, *s.network); err != nil {
			return 0, err
		}
	}
	ids := make([]string, len(s.containers))
	group, starting := errgroup.WithContext(ctx)
	for i, x := range s.containers {
		group.Go(func() (err error) {
			ids[i], err = b.startBare(starting, x, name, subnet)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err // the sweep in close removes the rest
	}
	if err := b.removeBare(ctx, s, ids, name); err != nil {
		return 0, err
	}
	return time.Since(began), nil
}

func (b *bench) startBare(ctx context.Context, x recordedContainer, network string, subnet netip.Prefix) (string, error) {
	id, err := b.createBare(ctx, x, network, subnet)
	if err != nil {
		return "", err
	}
	_, err = b.engine.ContainerStart(ctx, id, client.ContainerStartOptions{})
	return id, err
}

func (b *bench) createBare(ctx context.Context, x recordedContainer, network string, subnet netip.Prefix) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	host, networking := x.on(network, subnet)
	creating, cancel := uncancelled(ctx)
	defer cancel()
	made, err := b.engine.ContainerCreate(creating, client.ContainerCreateOptions{Config: &x.conf, HostConfig: &host, NetworkingConfig: networking})
	return made.ID, err
}

// uncancelled returns a context for a call that creates an object. It does not end with
// ctx, since the engine would still create the object and the sweep would miss it.
func uncancelled(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
}

// removeBare removes the containers in parallel, and then the network.
func (b *bench) removeBare(ctx context.Context, s shape, ids []string, network string) error {
	var group errgroup.Group
	var inNetwork sync.WaitGroup
	for i, id := range ids {
		if s.containers[i].offset != 0 {
			inNetwork.Add(1)
		}
		group.Go(func() error {
			if s.containers[i].offset != 0 {
				defer inNetwork.Done()
			}
			return b.engine.kill(ctx, id)
		})
	}
	if s.network != nil {
		group.Go(func() error {
			inNetwork.Wait()
			_, err := b.engine.NetworkRemove(ctx, network, client.NetworkRemoveOptions{})
			return err
		})
	}
	return group.Wait()
}

// makeNetwork creates a network in a free subnet.
func (b *bench) makeNetwork(ctx context.Context, name string, o client.NetworkCreateOptions) (netip.Prefix, error) {
	for range subnetTries {
		n := rand.Uint32N(1<<16/subnetSize) * subnetSize
		addr := netip.AddrFrom4([4]byte{10, 214, byte(n >> 8), byte(n)})
		subnet := netip.PrefixFrom(addr, 29)
		o.IPAM = &network.IPAM{Driver: "default", Config: []network.IPAMConfig{{Subnet: subnet}}}
		if err := ctx.Err(); err != nil {
			return subnet, err
		}
		creating, cancel := uncancelled(ctx)
		_, err := b.engine.NetworkCreate(creating, name, o)
		cancel()
		if err == nil || !strings.Contains(err.Error(), "Pool overlaps") { // the engine has no error class for this
			return subnet, err
		}
	}
	return netip.Prefix{}, errors.New("no free subnet in 10.214.0.0/16")
}

// floors runs count floors, atOnce at a time, and returns the rate per minute.
func (b *bench) floors(ctx context.Context, s shape, count, atOnce int) (perMinute float64, err error) {
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for range count {
		group.Go(func() error {
			_, err := b.floor(ctx, s)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	return float64(count) / time.Since(began).Minutes(), nil
}
