package local

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/waza-isolate/waza/sandbox"
)

// portCheck is how long to look whether somebody listens on a port.
const portCheck = 2 * time.Second

var _ sandbox.PortSharer = (*trialSandbox)(nil)

// ports are those of this machine that servers of the run listen on.
type ports struct {
	mu     sync.Mutex
	owners map[int]portOwner // guarded by mu
}

type portOwner struct {
	sandbox *trialSandbox
	server  string
}

// take has a port for one server. Its error says who has it.
func (p *ports) take(port int, by portOwner) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if owner, taken := p.owners[port]; taken {
		return fmt.Errorf("server %q of %s has it", owner.server, owner.sandbox.title())
	}
	if p.owners == nil {
		p.owners = map[int]portOwner{}
	}
	p.owners[port] = by
	return nil
}

// leave gives back every port of a sandbox.
func (p *ports) leave(s *trialSandbox) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for port, owner := range p.owners {
		if owner.sandbox == s {
			delete(p.owners, port)
		}
	}
}

// title is what people call the sandbox.
func (s *trialSandbox) title() string {
	if s.trial.ServersOnly {
		return "the run"
	}
	return fmt.Sprintf("%s/%d", s.trial.Task, s.trial.Number)
}

// TakePort implements sandbox.PortSharer: a port of this machine is for one server
// at a time, and nobody else may answer at it.
func (s *trialSandbox) TakePort(ctx context.Context, server string, port int) error {
	if err := s.check(server); err != nil {
		return err
	}
	if err := s.backend.ports.take(port, portOwner{s, server}); err != nil {
		return fmt.Errorf("port %d of this machine is taken: %w; give each a port of its own, or use --isolate", port, err)
	}
	ctx, cancel := context.WithTimeout(ctx, portCheck)
	defer cancel()
	for _, loopback := range []string{"127.0.0.1", "::1"} {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err == nil {
			_ = conn.Close()
			return fmt.Errorf("port %d of this machine is taken: another program listens there; end that, or give the server another port", port)
		}
	}
	return nil
}
