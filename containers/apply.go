package containers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guest"
)

// apply plans the trial's containers and starts them in parallel. Those on the network wait
// for it to exist. On error it removes everything again.
func (b *Backend) apply(ctx context.Context, lease *startedContainer, t *plan.Trial, on scene, observe func(evidence.Event)) (_ *trialSandbox, err error) {
	p := planTrial(t, on)
	s := &trialSandbox{backend: b, lease: lease, trial: t, plan: p, users: on.pool, dir: b.dirs.take(), files: on.files, observe: observe, containers: map[string]*startedContainer{}}
	defer func() {
		if err != nil {
			b.expectMore()
			err = errors.Join(err, s.Close(context.WithoutCancel(ctx)))
		}
	}()
	if p.lacksUsers() || s.dir == "" {
		return nil, errTooManyContainers
	}
	started := make([]*startedContainer, len(p.containers))
	group, gctx := errgroup.WithContext(ctx)
	made := sync.OnceValues(func() (addresses, error) { return s.makeForAgent(gctx) })
	for i, c := range p.containers {
		group.Go(func() (err error) {
			var a addresses
			if standsOnNetwork(c.container) {
				if a, err = made(); err != nil {
					return err
				}
			}
			placed, err := s.withFiles(gctx, p.placed(c, t, a))
			if err != nil {
				return err
			}
			started[i], err = b.start(gctx, placed, p.network)
			return err
		})
	}
	err = group.Wait()
	for i, c := range p.containers {
		if started[i] != nil {
			started[i].meter, started[i].writable = newMeter(c, observe), writableDirs(c)
			s.containers[c.container] = started[i]
		}
	}
	if err != nil {
		return nil, err
	}
	a, err := made()
	if err != nil {
		return nil, err
	}
	if p.network != "" {
		s.leaveNetwork = s.followNetwork()
	}
	s.servers = p.serversAt(a)
	return s, s.settle(ctx)
}

// makeForAgent makes what the agent's container stands on.
func (s *trialSandbox) makeForAgent(ctx context.Context) (a addresses, err error) {
	if s.plan.network != "" {
		if a, s.release, err = s.backend.createNetwork(ctx, s.plan.network, s.plan.trial, s.trial.Subnets); err != nil {
			return a, err
		}
	}
	if s.plan.workspace != "" {
		err = s.backend.makeWorkspace(ctx, s.plan)
	}
	return a, err
}

func (b *Backend) start(ctx context.Context, c containerPlan, network string) (*startedContainer, error) {
	if c.service {
		return b.startService(ctx, c)
	}
	return b.engine.startContainer(ctx, c, network)
}

func (b *Backend) makeWorkspace(ctx context.Context, p trialPlan) error {
	if _, err := b.createVolume(ctx, p.workspace, p.trial, roleWorkspace); err != nil {
		return fmt.Errorf("workspace volume: %w", err)
	}
	for _, c := range p.containers {
		if c.container == sandbox.Agent {
			return b.giveVolume(ctx, p.workspace, c.conf.User)
		}
	}
	return nil
}

// settle checks the walls of every container from the inside, before anything
// foreign runs there, and has each guest answer its container's DNS.
func (s *trialSandbox) settle(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for name, ctr := range s.containers {
		group.Go(func() error {
			onBridge := s.plan.network != "" && name == sandbox.Agent
			if err := checkWalls(ctr.guest.Hello(), onBridge, s.filtered(), ownKernel(s.trial.Runtime)); err != nil {
				return fmt.Errorf("container of %s: %w", name, err)
			}
			if err := ctr.meter.attend(ctx, ctr.guest); err != nil {
				return fmt.Errorf("container of %s: %w%s", name, err, behind(ctr.stderr))
			}
			err := ctr.guest.Resolve(ctx, s.names(name), func(q guest.Question) {
				s.observe(dnsEvent(name, q))
			})
			if err != nil {
				return fmt.Errorf("container of %s: %w%s", name, err, behind(ctr.stderr))
			}
			return nil
		})
	}
	return group.Wait()
}

// names is what resolves in a container: for the agent its servers, for a server its
// services, and for both what they may reach outside, at their own loopback.
func (s *trialSandbox) names(ctr string) map[string][]netip.Addr {
	names := map[string][]netip.Addr{"localhost": {netip.MustParseAddr("127.0.0.1")}}
	if !defence.NamesOfTrial {
		names["host.docker.internal"] = []netip.Addr{netip.MustParseAddr("192.0.2.123")}
	}
	for name, at := range egress.Names(egressOf(s.trial, ctr)) {
		names[name] = []netip.Addr{at}
	}
	if ctr != sandbox.Agent {
		for name, at := range serviceAddresses(s.trial, ctr) {
			names[name] = []netip.Addr{at}
		}
		return names
	}
	for _, server := range s.trial.Servers {
		names[server.Host()] = []netip.Addr{s.servers}
	}
	return names
}

func dnsEvent(ctr string, q guest.Question) evidence.Event {
	answer := "NXDOMAIN"
	if q.Answered {
		answer = "answered"
	}
	return evidence.Event{
		Kind: "dns", Where: ctr, Message: fmt.Sprintf("%s %s: %s", q.Type, q.Name, answer),
		Data: map[string]any{"name": q.Name, "type": q.Type, "answered": q.Answered},
	}
}
