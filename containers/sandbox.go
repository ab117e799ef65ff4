package containers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/observe"
	"github.com/waza-isolate/waza/sandbox/process"
)

const (
	// httpPort is the port on which the agent finds every server.
	httpPort = "80"
	// reachTimeout bounds connecting to a service for its server.
	reachTimeout = 10 * time.Second
	// observeTimeout bounds asking a guest that looks through the files of its container.
	observeTimeout = 10 * time.Second
)

// trialSandbox is one trial's network and containers. It implements sandbox.Sandbox and
// every optional interface of a sandbox's that containers can.
type trialSandbox struct {
	backend    *Backend
	lease      *heldLease // of the run when the sandbox was opened
	trial      *plan.Trial
	plan       trialPlan
	dir        string // of its files in the run's volume
	observe    func(evidence.Event)
	containers map[string]*startedContainer // complete before the sandbox is handed out
	network    taskNetwork
	servers    netip.Addr     // where the agent finds its servers
	relayed    sync.WaitGroup // connections to services, and who accepts them

	closeOnce sync.Once
	closeErr  error
}

var _ interface {
	sandbox.Hinter
	sandbox.Finder
	sandbox.Observer
	sandbox.Outlet
	sandbox.Services
} = (*trialSandbox)(nil)

// container returns the container of that name.
func (s *trialSandbox) container(name string) (*startedContainer, error) {
	c, ok := s.containers[name]
	if !ok {
		return nil, fmt.Errorf("trial has no container %q", name)
	}
	return c, nil
}

// Listen implements sandbox.Sandbox. The agent finds its servers in its own container, at
// an address of the task network or of its loopback.
func (s *trialSandbox) Listen(ctx context.Context) ([]sandbox.Endpoint, error) {
	c := s.containers[sandbox.Agent]
	if !defence.OneServerPort {
		if _, err := c.guest.Listen(ctx, net.JoinHostPort(s.servers.String(), "81")); err != nil {
			return nil, err
		}
	}
	ln, err := c.guest.Listen(ctx, net.JoinHostPort(s.servers.String(), httpPort))
	if err != nil {
		return nil, err
	}
	return []sandbox.Endpoint{{Listener: ln}}, nil
}

// ListenAt implements sandbox.Outlet.
func (s *trialSandbox) ListenAt(ctx context.Context, name string, at netip.AddrPort) (net.Listener, error) {
	c, err := s.container(name)
	if err != nil {
		return nil, err
	}
	return c.guest.Listen(ctx, at.String())
}

// Layout implements sandbox.Sandbox.
func (s *trialSandbox) Layout(string) sandbox.Layout { return sandbox.ContainerLayout() }

// Dial implements sandbox.Sandbox.
func (s *trialSandbox) Dial(ctx context.Context, name string, port int) (net.Conn, error) {
	c, err := s.container(name)
	if err != nil {
		return nil, err
	}
	return c.dial(ctx, port)
}

// Start implements sandbox.Sandbox. What the agent starts ends with it; what others start
// is watched.
func (s *trialSandbox) Start(ctx context.Context, name string, p process.Spec) (process.Process, error) {
	c, err := s.container(name)
	if err != nil {
		return nil, err
	}
	if p.Args = c.image.program(p); len(p.Args) == 0 {
		return nil, fmt.Errorf("%s: no command, and its image has none", name)
	}
	p.Dir = cmp.Or(p.Dir, c.image.dir)
	if name == sandbox.Agent {
		return c.guest.Exec(ctx, p, true)
	}
	return c.guest.ExecWatched(ctx, p, c.writable)
}

// Put implements sandbox.Sandbox.
func (s *trialSandbox) Put(ctx context.Context, name, dir string, tar io.Reader) error {
	c, err := s.container(name)
	if err != nil {
		return err
	}
	return c.guest.Put(ctx, dir, tar)
}

// Collect implements sandbox.Sandbox.
func (s *trialSandbox) Collect(ctx context.Context, name, dir string, w io.Writer) error {
	c, err := s.container(name)
	if err != nil {
		return err
	}
	return c.guest.Get(ctx, dir, s.Layout(name).Ours(), w)
}

// Find implements sandbox.Finder.
func (s *trialSandbox) Find(ctx context.Context, name, path string, w io.Writer) error {
	c, err := s.container(name)
	if err != nil {
		return err
	}
	return c.guest.Find(ctx, path, w)
}

// Observe implements sandbox.Observer.
func (s *trialSandbox) Observe(ctx context.Context, name string) (observe.Seen, error) {
	c, err := s.container(name)
	if err != nil {
		return observe.Seen{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	return c.guest.Observe(ctx)
}

// Usage implements sandbox.Sandbox.
func (s *trialSandbox) Usage(ctx context.Context, name string) (evidence.Usage, error) {
	c, err := s.container(name)
	if err != nil {
		return evidence.Usage{}, err
	}
	return c.usage(ctx)
}

// Guarantees implements sandbox.Sandbox.
func (s *trialSandbox) Guarantees() evidence.Guarantees {
	var seen []*observe.Usage
	for _, c := range s.containers {
		seen = append(seen, c.meter.last())
	}
	return guarantees(s.trial, s.plan, s.backend.engine.limits(), seen)
}

// Containers returns the engine's names of the containers, for a person who wants to enter.
func (s *trialSandbox) Containers() map[string]string {
	names := map[string]string{}
	for _, c := range s.plan.containers {
		names[c.container] = c.name
	}
	return names
}

// Hint implements sandbox.Hinter: an image that expects root gets another user, which
// its own message seldom says.
func (s *trialSandbox) Hint(name string) string {
	c, ok := s.containers[name]
	planned := limitsOf(s.trial, name)
	if !ok || planned.Image == "" || planned.User != "" || !isRoot(c.image.user) || c.image.ours {
		return ""
	}
	names := "names no user"
	if c.image.user != "" {
		names = "names root as its user"
	}
	advice := "its image " + names + ", so it ran as a user without rights, on a read-only root file system"
	if name == sandbox.Agent {
		return advice + "; if that is the reason, set config.isolation.agent.user to the user it is made for"
	}
	if program := c.image.dropsRoot(); program != "" {
		advice += "; its entrypoint " + program + " is made to begin as root"
	}
	return advice + "; if that is the reason, set user to the user it is made for, writable to the directories it writes to, and, where its entrypoint insists on root, command to the program itself"
}

// limitsOf returns a container of the trial as planned.
func limitsOf(t *plan.Trial, name string) sandbox.Container {
	if name == sandbox.Agent {
		return t.Agent.Container
	}
	for _, server := range t.Servers {
		if server.Name == name {
			return server.Container
		}
		for _, service := range server.Services {
			if sandbox.ServiceName(server.Name, service.Name) == name {
				return service.Container
			}
		}
	}
	return sandbox.Container{}
}

// Ready implements sandbox.Services.
func (s *trialSandbox) Ready(ctx context.Context, server, service string, check process.Spec) error {
	c, err := s.container(sandbox.ServiceName(server, service))
	if err != nil {
		return err
	}
	if c.service == nil {
		return fmt.Errorf("%s is no service", sandbox.ServiceName(server, service))
	}
	if err := c.awaitReady(ctx, check); err != nil {
		return err
	}
	return s.expose(ctx, server, service, c)
}

// expose has a server's guest accept connections for a service of its.
func (s *trialSandbox) expose(ctx context.Context, server, service string, to *startedContainer) error {
	at, ok := serviceAddresses(s.trial, server)[service]
	c, err := s.container(server)
	if err != nil || !ok {
		return errors.Join(err, fmt.Errorf("server %q has no service %q", server, service))
	}
	for _, port := range portsOf(s.trial, server, service) {
		ln, err := c.guest.Listen(ctx, net.JoinHostPort(at.String(), strconv.Itoa(port)))
		if err != nil {
			return fmt.Errorf("port %d in the container of server %q: %w", port, server, err)
		}
		s.relayed.Go(func() { s.relay(ln, to, port) })
	}
	return nil
}

// relay relays connections to a port of a service, until the server's container ends. How
// many at once is up to the server's guest, which lets the others wait.
func (s *trialSandbox) relay(ln net.Listener, to *startedContainer, port int) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		s.relayed.Go(func() {
			near := conn.(egress.Stream)
			ctx, cancel := context.WithTimeout(context.Background(), reachTimeout)
			far, err := to.dial(ctx, port)
			cancel()
			if err != nil {
				near.Abort() // as a service that does not listen would
				return
			}
			egress.Splice(near, far.(egress.Stream))
		})
	}
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
		err = s.takeDown(ctx)
	} else { // what is left there is removed later
		for _, c := range s.containers {
			c.abandon()
		}
		err = fmt.Errorf("its containers are left for later: %w", err)
	}
	s.relayed.Wait() // they end with the containers
	s.network.giveBack()
	if err != nil {
		s.backend.leftovers.add(s.plan.trial)
		return err
	}
	s.plan.giveBack(s.lease.users)
	s.backend.dirs.giveBack(s.dir)
	return nil
}

// takeDown ends the containers, and then removes the network and the workspace's volume.
func (s *trialSandbox) takeDown(ctx context.Context) error {
	e, which := s.backend.engine, labelled(s.backend.run, s.plan.trial)
	var all, inNetwork sync.WaitGroup
	errs := make(chan error, len(s.containers)+1)
	for _, c := range s.containers {
		if c.onNet {
			inNetwork.Add(1)
		}
		all.Go(func() {
			errs <- c.close(ctx)
			if c.onNet {
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
