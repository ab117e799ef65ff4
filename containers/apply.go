package containers

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"

	"github.com/moby/moby/api/types/mount"
	"golang.org/x/sync/errgroup"

	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guests"
)

// apply starts the containers of a sandbox's plan in parallel. Those on the network wait until
// it exists. On error everything is removed again.
func (s *trialSandbox) apply(ctx context.Context, filtered bool) (err error) {
	defer func() {
		if err != nil {
			s.backend.leftovers.expectMore()
			err = errors.Join(err, s.Close(context.WithoutCancel(ctx)))
		}
	}()
	if s.plan.lacksUsers() || s.dir == "" {
		return errTooManyContainers
	}
	started := make([]*startedContainer, len(s.plan.containers))
	group, gctx := errgroup.WithContext(ctx)
	prepared := sync.OnceValues(func() (addresses, error) { return s.createForAgent(gctx) })
	for i, c := range s.plan.containers {
		group.Go(func() (err error) {
			var a addresses
			if isOnNetwork(c.Name) {
				if a, err = prepared(); err != nil {
					return err
				}
			}
			placed, err := s.withFiles(gctx, s.plan.withAddress(c, s.Spec, a))
			if err != nil {
				return err
			}
			started[i], err = s.backend.start(gctx, placed, s.plan.network)
			return err
		})
	}
	err = group.Wait()
	for _, c := range started {
		if c != nil {
			s.add(c)
		}
	}
	if err != nil {
		return err
	}
	a, err := prepared()
	if err != nil {
		return err
	}
	if s.plan.network != "" {
		s.network.leave = s.backend.watch.followNetwork(s.plan.network, s.cut)
	}
	s.Servers = s.plan.serversAt(a)
	return s.Settle(ctx, func(_ context.Context, name string, c *guests.Container) error {
		onBridge := s.plan.network != "" && name == sandbox.Agent
		return guests.CheckWalls(c.Guest.Hello(), guests.Walls{Interface: onBridge, OurFilter: filtered, OwnKernel: ownKernel(s.Spec.Runtime)})
	})
}

// createForAgent creates the network and the volume of the agent's container. It returns the
// addresses of the network.
func (s *trialSandbox) createForAgent(ctx context.Context) (a addresses, err error) {
	if s.plan.network != "" {
		if a, s.network.release, err = s.backend.networks.create(ctx, s.plan.network, s.plan.trial, s.Spec.Subnets); err != nil {
			return a, err
		}
	}
	if s.plan.workspace == "" {
		return a, nil
	}
	if _, err := s.backend.engine.createVolume(ctx, s.plan.workspace, labels(s.backend.run, s.plan.trial, roleWorkspace)); err != nil {
		return a, fmt.Errorf("workspace volume: %w", err)
	}
	for _, c := range s.plan.containers {
		if c.Name == sandbox.Agent {
			return a, s.backend.images.giveVolume(ctx, s.plan.workspace, c.conf.User)
		}
	}
	return a, nil
}

// withFiles adds a container's own files to its plan: the agent's mcp.json and, without a
// network, /etc/hosts and /etc/resolv.conf. The engine's networking is then disabled, which
// saves 40 % of the start time but leaves these files unwritten.
//
// The lease's guest writes the files to the run's volume, and each is mounted separately and
// read-only. Containers do not share files, because locks and watches on them would be visible
// to each other.
func (s *trialSandbox) withFiles(ctx context.Context, c containerPlan) (containerPlan, error) {
	files := map[string]string{}
	if c.MCPConfig != "" {
		files[sandbox.MCPConfigPath] = c.MCPConfig
	}
	if c.host.NetworkMode.IsNone() {
		files["/etc/hosts"] = hostsFile(c.host.ExtraHosts)
		files["/etc/resolv.conf"] = resolvConf
		c.conf.NetworkDisabled = true
		c.host.ExtraHosts, c.host.DNS, c.host.DNSSearch, c.host.DNSOptions = nil, nil, nil, nil
	}
	if len(files) == 0 {
		return c, nil
	}
	var all []layerFile
	for _, at := range sortedKeys(files) {
		name := path.Join(s.dir, fileName(c.Name)+"."+path.Base(at))
		all = append(all, layerFile{name: name, text: files[at]})
		c.host.Mounts = append(c.host.Mounts[:len(c.host.Mounts):len(c.host.Mounts)], mount.Mount{
			Type: mount.TypeBind, Source: path.Join(s.lease.files, name), Target: at, ReadOnly: true,
		})
	}
	content := layerTar(all)
	defer func() { _ = content.Close() }()
	if err := s.lease.Guest.Put(ctx, filesDir, content); err != nil {
		return c, fmt.Errorf("files of %s: %w", c.engineName, err)
	}
	return c, nil
}
