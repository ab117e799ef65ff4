package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/sandbox"
)

// shape describes the network and containers of a trial, so that they can be created with
// plain engine calls.
type shape struct {
	network    *client.NetworkCreateOptions // nil if there is none
	containers []recordedContainer
}

// recordedContainer is one container of a shape.
type recordedContainer struct {
	role   string // name of the container in its trial
	conf   container.Config
	host   container.HostConfig
	offset int // of its address in the subnet; 0 without an address
}

// shapeOf returns the shape of a running trial. Its containers run the idle peer instead of
// the trial's programs, so that the floor is the cost of the engine alone. A network gets a
// second container, as trials once had, to keep figures comparable over time.
func (b *bench) shapeOf(ctx context.Context, trial string) (shape, error) {
	var s shape
	with := client.Filters{}.Add("label", labelRun+"="+b.run).Add("label", labelTrial+"="+trial)
	networks, err := b.engine.NetworkList(ctx, client.NetworkListOptions{Filters: with})
	if err != nil {
		return s, err
	}
	for _, n := range networks.Items {
		ipv6 := n.EnableIPv6
		s.network = &client.NetworkCreateOptions{
			Driver: n.Driver, Internal: n.Internal, EnableIPv6: &ipv6, Options: n.Options, Labels: b.labels(),
		}
	}
	found, err := b.engine.ContainerList(ctx, client.ContainerListOptions{Filters: with})
	if err != nil {
		return s, err
	}
	for _, c := range found.Items {
		one, err := b.containerOf(ctx, c.ID)
		if err != nil {
			return s, err
		}
		s.containers = append(s.containers, one)
	}
	if i := slices.IndexFunc(s.containers, func(x recordedContainer) bool { return x.offset != 0 }); i >= 0 {
		beside := s.containers[i]
		beside.role, beside.offset = "beside the agent", beside.offset+1
		s.containers = append(s.containers, beside)
	}
	if len(s.containers) < 3 || s.network == nil != (len(networks.Items) == 0) {
		return s, fmt.Errorf("trial %s has %d containers, which is not what was to be measured", trial, len(s.containers))
	}
	return s, nil
}

func (b *bench) containerOf(ctx context.Context, id string) (recordedContainer, error) {
	found, err := b.engine.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return recordedContainer{}, err
	}
	c := found.Container
	if c.Config == nil || c.HostConfig == nil || c.NetworkSettings == nil {
		return recordedContainer{}, errors.New("the engine tells nothing of container " + c.Name)
	}
	one := recordedContainer{role: c.Config.Labels["waza.role"], host: *c.HostConfig, conf: container.Config{
		Image: b.image, User: c.Config.User, Entrypoint: []string{"/peer"}, Cmd: []string{"stdio"}, Labels: b.labels(),
		OpenStdin: true, StdinOnce: true, Healthcheck: c.Config.Healthcheck,
	}}
	// The directory of the socket was removed after the guest connected.
	one.host.Mounts = slices.DeleteFunc(slices.Clone(one.host.Mounts), func(m mount.Mount) bool { return m.Target == path.Dir(sandbox.SocketPath) })
	for _, endpoint := range c.NetworkSettings.Networks {
		if endpoint.IPAddress.Is4() {
			one.offset = int(endpoint.IPAddress.As4()[3] % subnetSize)
		}
	}
	return one, nil
}

func (b *bench) labels() map[string]string {
	return map[string]string{labelRun: b.run, labelBench: b.run}
}

// on returns the configuration of the container for the network, if the container has an
// address in one.
func (x recordedContainer) on(name string, subnet netip.Prefix) (container.HostConfig, *network.NetworkingConfig) {
	host := x.host
	if x.offset == 0 {
		return host, nil
	}
	host.NetworkMode = container.NetworkMode(name)
	return host, &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{
		name: {IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: x.addr(subnet)}},
	}}
}

// addr returns the address of the container in a subnet.
func (x recordedContainer) addr(subnet netip.Prefix) netip.Addr {
	addr := subnet.Addr().As4()
	addr[3] += byte(x.offset)
	return netip.AddrFrom4(addr)
}

// String counts the objects of the shape.
func (s shape) String() string {
	containers := fmt.Sprintf("%d containers", len(s.containers))
	if s.network != nil {
		return "one network and " + containers
	}
	return containers
}

// role returns a copy of the container with the role name.
func (s shape) role(name string) (recordedContainer, error) {
	i := slices.IndexFunc(s.containers, func(x recordedContainer) bool { return x.role == name })
	if i < 0 {
		return recordedContainer{}, fmt.Errorf("no container of the trial is its %s", name)
	}
	found := s.containers[i]
	found.conf.Labels = maps.Clone(found.conf.Labels)
	return found, nil
}
