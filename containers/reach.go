package containers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/sandbox"
)

// reachTimeout bounds connecting to a service for its server.
const reachTimeout = 10 * time.Second

// expose has a server's guest take in connections for a service of its.
func (s *trialSandbox) expose(ctx context.Context, server, service string) error {
	at, ok := serviceAddresses(s.trial, server)[service]
	b, err := s.container(server)
	if err != nil || !ok {
		return errors.Join(err, fmt.Errorf("server %q has no service %q", server, service))
	}
	for _, port := range s.portsOf(server, service) {
		ln, err := b.guest.Listen(ctx, net.JoinHostPort(at.String(), strconv.Itoa(port)))
		if err != nil {
			return fmt.Errorf("port %d in the container of server %q: %w", port, server, err)
		}
		s.carried.Go(func() { s.takeIn(ln, sandbox.ServiceName(server, service), port) })
	}
	return nil
}

func (s *trialSandbox) portsOf(server, service string) []int {
	for _, srv := range s.trial.Servers {
		for _, svc := range srv.Services {
			if srv.Name == server && svc.Name == service {
				return svc.Ports
			}
		}
	}
	return nil
}

// takeIn carries what connects, until the server's container ends. How many at
// once is up to the guest, which lets the others wait.
func (s *trialSandbox) takeIn(ln net.Listener, service string, port int) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		s.carried.Go(func() {
			near := conn.(egress.Stream)
			far, err := s.reach(service, port)
			if err != nil {
				near.Abort() // as a service that does not listen would
				return
			}
			egress.Splice(near, far)
		})
	}
}

func (s *trialSandbox) reach(service string, port int) (egress.Stream, error) {
	ctx, cancel := context.WithTimeout(context.Background(), reachTimeout)
	defer cancel()
	conn, err := s.Dial(ctx, service, port)
	if err != nil {
		return nil, err
	}
	return conn.(egress.Stream), nil
}
