// Package guests implements the part of a trial's sandbox that uses the guests of its
// containers, on any engine: programs, files, endpoints, names and resource usage.
//
// It neither creates nor ends containers.
package guests

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guest"
	"github.com/waza-isolate/waza/sandbox/observe"
	"github.com/waza-isolate/waza/sandbox/process"
)

const (
	// httpPort is the port of every server for the agent.
	httpPort = "80"
	// reachTimeout bounds connecting to a service for its server.
	reachTimeout = 10 * time.Second
	// observeTimeout bounds a report of a guest that lists the files of its container.
	observeTimeout = 10 * time.Second
	// usageTimeout bounds a request to a guest that may be frozen.
	usageTimeout = 5 * time.Second
)

// Program is the program of an image.
type Program struct {
	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"` // arguments of Entrypoint, or the command if there is none
	Dir        string   `json:"dir,omitempty"` // working directory of the image's programs
}

// Args returns the command line of p in a container of the image.
func (i Program) Args(p process.Spec) []string {
	switch {
	case len(p.Args) == 0:
		return slices.Concat(i.Entrypoint, i.Cmd)
	case p.OfImage:
		return slices.Concat(i.Entrypoint, p.Args)
	}
	return p.Args
}

// Container is a running container.
type Container struct {
	Guest   *guest.Guest
	Stderr  *bounded.Ends // end of what process 1 has written to stderr
	Program Program
	// Starved reports whether the container, whose guest does not answer, ran out of memory.
	Starved func(context.Context) bool

	meter *meter // nil outside a trial
}

// Start starts a program of ours, which is neither watched nor the container's only one.
func (c *Container) Start(ctx context.Context, p process.Spec) (process.Process, error) {
	return c.Guest.Exec(ctx, p, false)
}

// Dial connects to a port on the container's loopback, over IPv4 or IPv6.
func (c *Container) Dial(ctx context.Context, port int) (net.Conn, error) {
	var errs []error
	for _, loopback := range []string{"127.0.0.1", "::1"} {
		conn, err := c.Guest.Dial(ctx, net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// Sandbox is the containers of a sandbox. It implements the methods of sandbox.Contained that use
// guests.
type Sandbox struct {
	Spec    *sandbox.Spec
	Report  func(evidence.Event) // is called with events in the containers
	Servers netip.Addr           // address of servers for the agent

	containers map[string]*Container // complete before a method other than Add is called
	relayed    sync.WaitGroup        // relays of connections to services
}

// Add adds a container that has been started. limited are its writable directories with a size
// limit.
func (s *Sandbox) Add(name string, c *Container, limited []string) {
	if s.containers == nil {
		s.containers = map[string]*Container{}
	}
	c.meter = newMeter(name, limited, s.Report)
	s.containers[name] = c
}

// Settle checks the walls of every container from inside, before anything untrusted runs there,
// and starts the reports and the DNS of each guest.
func (s *Sandbox) Settle(ctx context.Context, check func(ctx context.Context, name string, c *Container) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for name, c := range s.containers {
		group.Go(func() error {
			err := check(ctx, name, c)
			if err == nil {
				err = c.meter.watch(ctx, c.Guest)
			}
			if err == nil {
				err = c.Guest.Resolve(ctx, Names(s.Spec, name, s.Servers), func(q guest.Question) { s.Report(dnsEvent(name, q)) })
			}
			if err != nil {
				return fmt.Errorf("container of %s: %w%s", name, err, c.Stderr.Suffix())
			}
			return nil
		})
	}
	return group.Wait()
}

// Container returns a container by name.
func (s *Sandbox) Container(name string) (*Container, error) {
	c, ok := s.containers[name]
	if !ok {
		return nil, fmt.Errorf("trial has no container %q", name)
	}
	return c, nil
}

// Listen implements sandbox.Sandbox. The agent reaches its servers in its own container, at an
// address of the task network or of loopback.
func (s *Sandbox) Listen(ctx context.Context) ([]sandbox.Endpoint, error) {
	c := s.containers[sandbox.Agent]
	if !defence.OneServerPort {
		if _, err := c.Guest.Listen(ctx, net.JoinHostPort(s.Servers.String(), "81")); err != nil {
			return nil, err
		}
	}
	ln, err := c.Guest.Listen(ctx, net.JoinHostPort(s.Servers.String(), httpPort))
	if err != nil {
		return nil, err
	}
	return []sandbox.Endpoint{{Listener: ln}}, nil
}

// ListenAt implements sandbox.Contained.
func (s *Sandbox) ListenAt(ctx context.Context, name string, at netip.AddrPort) (net.Listener, error) {
	c, err := s.Container(name)
	if err != nil {
		return nil, err
	}
	return c.Guest.Listen(ctx, at.String())
}

// Dial implements sandbox.Sandbox.
func (s *Sandbox) Dial(ctx context.Context, name string, port int) (net.Conn, error) {
	c, err := s.Container(name)
	if err != nil {
		return nil, err
	}
	return c.Dial(ctx, port)
}

// Start implements sandbox.Sandbox. Everything in the agent's container ends with the program;
// programs in other containers are watched.
func (s *Sandbox) Start(ctx context.Context, name string, p process.Spec) (process.Process, error) {
	c, err := s.Container(name)
	if err != nil {
		return nil, err
	}
	if p.Args = c.Program.Args(p); len(p.Args) == 0 {
		return nil, fmt.Errorf("%s: no command, and its image has none", name)
	}
	p.Dir = cmp.Or(p.Dir, c.Program.Dir)
	if name == sandbox.Agent {
		return c.Guest.Exec(ctx, p, true)
	}
	return c.Guest.ExecWatched(ctx, p, c.meter.dirs)
}

// Put implements sandbox.Sandbox.
func (s *Sandbox) Put(ctx context.Context, name, dir string, tar io.Reader) error {
	c, err := s.Container(name)
	if err != nil {
		return err
	}
	return c.Guest.Put(ctx, dir, tar)
}

// Collect implements sandbox.Sandbox.
func (s *Sandbox) Collect(ctx context.Context, name, dir string, w io.Writer) error {
	c, err := s.Container(name)
	if err != nil {
		return err
	}
	err = c.Guest.Get(ctx, dir, sandbox.ContainerLayout().Ours(), w)
	if _, refused := errors.AsType[guest.Refused](err); refused {
		return fmt.Errorf("%w: %w", sandbox.ErrUnreadable, err)
	}
	return err
}

// Find implements sandbox.Contained.
func (s *Sandbox) Find(ctx context.Context, name, path string, w io.Writer) error {
	c, err := s.Container(name)
	if err != nil {
		return err
	}
	return c.Guest.Find(ctx, path, w)
}

// Observe implements sandbox.Contained.
func (s *Sandbox) Observe(ctx context.Context, name string) (observe.Seen, error) {
	c, err := s.Container(name)
	if err != nil {
		return observe.Seen{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	return c.Guest.Observe(ctx)
}

// Usage implements sandbox.Sandbox.
func (s *Sandbox) Usage(ctx context.Context, name string) (evidence.Usage, error) {
	c, err := s.Container(name)
	if err != nil {
		return evidence.Usage{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, usageTimeout)
	defer cancel()
	return c.meter.used(ctx, c.Guest, c.Starved)
}

// Layout implements sandbox.Sandbox.
func (s *Sandbox) Layout(string) sandbox.Layout { return sandbox.ContainerLayout() }

// Hint implements sandbox.Sandbox. It knows none.
func (s *Sandbox) Hint(string) string { return "" }

// Gone implements sandbox.Sandbox.
func (s *Sandbox) Gone(name string) <-chan struct{} {
	if c, ok := s.containers[name]; ok {
		return c.Guest.Done()
	}
	gone := make(chan struct{})
	close(gone)
	return gone
}

// Expose makes a server's guest accept connections for one of its services.
func (s *Sandbox) Expose(ctx context.Context, server, service string) error {
	name, reached := sandbox.ServiceName(server, service), s.Spec.From(server)
	i := slices.IndexFunc(reached, func(e sandbox.Edge) bool { return e.To == name })
	if i < 0 {
		return fmt.Errorf("server %q has no service %q", server, service)
	}
	c, err := s.Container(server)
	if err != nil {
		return err
	}
	to, err := s.Container(name)
	if err != nil {
		return err
	}
	for _, port := range reached[i].Ports {
		ln, err := c.Guest.Listen(ctx, net.JoinHostPort(serviceAddr(i).String(), strconv.Itoa(port)))
		if err != nil {
			return fmt.Errorf("port %d in the container of server %q: %w", port, server, err)
		}
		s.relayed.Go(func() { s.relay(ln, to, port) })
	}
	return nil
}

// relay forwards connections to a port of a service, until the server's container ends. The
// server's guest limits how many there are at once.
func (s *Sandbox) relay(ln net.Listener, to *Container, port int) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		s.relayed.Go(func() {
			near := conn.(egress.Stream)
			ctx, cancel := context.WithTimeout(context.Background(), reachTimeout)
			far, err := to.Dial(ctx, port)
			cancel()
			if err != nil {
				near.Abort() // as if the service did not listen
				return
			}
			egress.Splice(near, far.(egress.Stream))
		})
	}
}

// Wait waits until no connection to a service is forwarded any more. The containers must have
// ended.
func (s *Sandbox) Wait() { s.relayed.Wait() }
