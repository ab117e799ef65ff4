package containers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guests"
	"github.com/waza-isolate/waza/sandbox/process"
)

// trialSandbox is the network and containers of one sandbox. It implements sandbox.Contained.
type trialSandbox struct {
	guests.Sandbox
	backend    *Backend
	lease      *heldLease // the run's lease when the sandbox was opened
	plan       trialPlan
	dir        string                       // directory of its files in the run's volume
	containers map[string]*startedContainer // not modified after the sandbox was opened
	network    taskNetwork

	closeOnce sync.Once
	closeErr  error
}

var _ sandbox.Contained = (*trialSandbox)(nil)

// add adds a container before the sandbox is returned.
func (s *trialSandbox) add(c *startedContainer) {
	s.containers[c.plan.Name] = c
	s.Add(c.plan.Name, &c.Container, append(sortedKeys(c.plan.host.Tmpfs), sandbox.SharedMemory))
}

// Guarantees implements sandbox.Sandbox. Each line was checked from inside the containers when
// they started, or is one of the engine's limits.
func (s *trialSandbox) Guarantees() evidence.Guarantees {
	t, runtime := s.Spec, ""
	if ownKernel(t.Runtime) {
		runtime = "runtime " + t.Runtime
	}
	g := s.CommonGuarantees("docker", runtime)
	g.Enforced = append(g.Enforced, "every server in a container of its own without a network interface")
	if slices.ContainsFunc(t.Reach, func(e sandbox.Edge) bool { return e.From != sandbox.Agent }) {
		g.Enforced = append(g.Enforced, "every service in a container of its own without a network interface, within reach of its server alone")
	}
	for limit, enforced := range s.backend.engine.limits() {
		if enforced {
			g.Enforced = append(g.Enforced, limit+" of every container is limited")
		} else {
			g.Missing = append(g.Missing, limit+" of containers is not limited: the engine's kernel cannot")
		}
	}
	enforced, missing := s.backend.engine.userMaps()
	g.Enforced, g.Missing = append(g.Enforced, enforced...), append(g.Missing, missing...)
	if t.HasAgent() {
		s.plan.guaranteesOfAgent(&g)
	}
	s.plan.guaranteesOfUsers(&g)
	slices.Sort(g.Enforced)
	slices.Sort(g.Missing)
	return g
}

// Enter implements sandbox.Sandbox.
func (s *trialSandbox) Enter(name string) string {
	return "docker exec -it " + s.containers[name].plan.engineName + " sh"
}

// Hint implements sandbox.Sandbox. It explains that an image that expects root runs as another
// user, which the image's own message seldom says.
func (s *trialSandbox) Hint(name string) string {
	c, ok := s.containers[name]
	if !ok || c.plan.Image == "" || c.plan.User != "" || !guests.IsRoot(c.plan.image.User) || c.plan.image.ours {
		return ""
	}
	names := "names no user"
	if c.plan.image.User != "" {
		names = "names root as its user"
	}
	advice := "its image " + names + ", so it ran as a user without rights, on a read-only root file system"
	if name == sandbox.Agent {
		return advice + "; if that is the reason, set config.isolation.agent.user to the user it is made for"
	}
	if program := c.plan.image.dropsRoot(); program != "" {
		advice += "; its entrypoint " + program + " is made to begin as root"
	}
	return advice + "; if that is the reason, set user to the user it is made for, writable to the directories it writes to, and, where its entrypoint insists on root, command to the program itself"
}

// Ready implements sandbox.Contained.
func (s *trialSandbox) Ready(ctx context.Context, server, service string, check process.Spec, failed func(string)) error {
	name := sandbox.ServiceName(server, service)
	if _, err := s.Container(name); err != nil {
		return err
	}
	c := s.containers[name]
	if c.service == nil {
		return fmt.Errorf("%s is not a service", name)
	}
	if err := c.awaitReady(ctx, check, failed); err != nil {
		return err
	}
	return s.Expose(ctx, server, service)
}

// Close implements sandbox.Sandbox.
func (s *trialSandbox) Close(ctx context.Context) error {
	s.closeOnce.Do(func() { s.closeErr = s.close(ctx) })
	return s.closeErr
}

func (s *trialSandbox) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	s.network.end()
	err := s.backend.engine.answers(ctx)
	if err == nil {
		if err = s.takeDown(ctx); err != nil {
			err = s.backend.blame(ctx, s.lease, err)
		}
	} else { // the rest is removed later
		for _, c := range s.containers {
			c.abandon()
		}
		err = fmt.Errorf("its containers are left for later: %w", err)
	}
	s.Wait() // relays end with the containers
	s.network.giveBack()
	release := func() {
		s.plan.releaseUsers(s.lease.users)
		s.backend.dirs.Put(s.dir)
	}
	if err != nil {
		s.backend.leftovers.add(s.plan.trial, release)
		return err
	}
	release()
	return nil
}

// takeDown removes the containers, and then the network and the workspace volume.
func (s *trialSandbox) takeDown(ctx context.Context) error {
	e, which := s.backend.engine, ofTrial(s.backend.run, s.plan.trial)
	var all, inNetwork sync.WaitGroup
	errs := make(chan error, len(s.containers)+1)
	for _, c := range s.containers {
		if c.plan.addr.IsValid() {
			inNetwork.Add(1)
		}
		all.Go(func() {
			errs <- c.Close(ctx)
			if c.plan.addr.IsValid() {
				inNetwork.Done()
			}
		})
	}
	if s.plan.network != "" {
		all.Go(func() {
			inNetwork.Wait()
			errs <- e.removeNetworks(ctx, which)
		})
	}
	all.Wait()
	close(errs)
	var failed []error
	for err := range errs {
		failed = append(failed, err)
	}
	if s.plan.workspace != "" {
		failed = append(failed, e.removeVolumes(ctx, which))
	}
	return errors.Join(failed...)
}
