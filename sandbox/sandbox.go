// Package sandbox defines the sandbox of one trial: starting programs in its containers,
// copying files in and out, and reporting why a container ended.
//
// [Sandbox] has what every backend must do. What some can do besides is an optional
// interface, which a function of this package asks for and replaces by a default, or which
// the runner looks for. The package decides nothing and starts nothing.
package sandbox

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox/observe"
	"github.com/waza-isolate/waza/sandbox/process"
)

// Agent is the container in which the agent runs, as [Sandbox.Start] and other methods name
// it. Every other container is a server's, under its own name, or a service's, see
// [ServiceName].
const Agent = "agent"

// ServiceName returns the name of the container of a server's service.
func ServiceName(server, service string) string { return server + "/" + service }

// Sandbox is what one trial owns.
type Sandbox interface {
	// Listen opens the endpoints where the agent finds its servers, and its models if it
	// has any.
	Listen(ctx context.Context) ([]Endpoint, error)
	// Dial connects to a port on the loopback of a server's container, over IPv4 or
	// IPv6.
	Dial(ctx context.Context, server string, port int) (net.Conn, error)
	// Start starts a program in a container; with no Args, or OfImage, that of its image.
	Start(ctx context.Context, container string, p process.Spec) (process.Process, error)
	// Put unpacks a tar into a directory of a container.
	Put(ctx context.Context, container, dir string, tar io.Reader) error
	// Collect writes a directory of a container to w as tar, without links to
	// [MCPConfigPath]. The container may put any bytes into it.
	Collect(ctx context.Context, container, dir string, w io.Writer) error
	// Guarantees returns what is really enforced.
	Guarantees() evidence.Guarantees
	// Close ends everything, the output of every process too. It may be called
	// twice and joins what went wrong.
	Close(ctx context.Context) error
}

// Endpoint is where the agent finds servers.
type Endpoint struct {
	net.Listener
	Server string // the one found here, or [ModelHost]; empty for all, distinguished by HTTP's Host
	Host   string // what stands for the server in its URL; empty for its name
}

// Placer is a [Sandbox] whose layout is not [ContainerLayout].
type Placer interface {
	Layout(container string) Layout
}

// LayoutOf returns the layout of a container.
func LayoutOf(s Sandbox, container string) Layout {
	if p, ok := s.(Placer); ok {
		return p.Layout(container)
	}
	return ContainerLayout()
}

// Meter is a [Sandbox] that measures its containers.
type Meter interface {
	// Usage returns what a container used so far, by its own account, and the last account
	// if it has ended. It fails if nothing of that can be seen.
	Usage(ctx context.Context, container string) (evidence.Usage, error)
}

// UsageOf returns what a container used so far. It fails if s is no [Meter].
func UsageOf(ctx context.Context, s Sandbox, container string) (evidence.Usage, error) {
	if m, ok := s.(Meter); ok {
		return m.Usage(ctx, container)
	}
	return evidence.Usage{}, errors.New("this backend does not measure what containers use")
}

// Monitor is a [Sandbox] that notices when a container ends before Close.
type Monitor interface {
	// Gone is closed when a container has ended, by itself or at Close.
	Gone(container string) <-chan struct{}
	// Ended reports whether a container does not answer any more, and who caused that. It
	// is called before Close. What runs in the container cannot have it name somebody
	// else.
	Ended(ctx context.Context, container string) Exit
}

// GoneOf returns a channel that is closed when a container has ended. If s is no
// [Monitor] it is nil: containers end with Close.
func GoneOf(s Sandbox, container string) <-chan struct{} {
	if m, ok := s.(Monitor); ok {
		return m.Gone(container)
	}
	return nil
}

// EndedOf returns how a container ended, zero while it runs. If s is no [Monitor] it runs
// until Close.
func EndedOf(ctx context.Context, s Sandbox, container string) Exit {
	if m, ok := s.(Monitor); ok {
		return m.Ended(ctx, container)
	}
	return Exit{}
}

// Cause is who ended a container.
type Cause string

const (
	// ByItself means what runs in the container, or at least nobody else that is known.
	ByItself Cause = "itself"
	// ByBreach means the same: what came out of the container broke the rules.
	ByBreach Cause = "breach"
	// FromOutside means somebody else, by way of the engine.
	FromOutside Cause = "outside"
	// ByEngine means that the engine or its host went away.
	ByEngine Cause = "engine"
)

// Exit is how a container ended. It is zero while the container runs.
type Exit struct {
	Cause   Cause
	Message string // a sentence without its subject, which is the container
}

// Foreign reports whether those who run in the container are not to blame.
func (e Exit) Foreign() bool { return e.Cause == FromOutside || e.Cause == ByEngine }

// Hinter is a [Sandbox] that knows what is special about its containers.
type Hinter interface {
	// Hint returns what may have kept a program from starting in a container, and what
	// to do; empty for nothing.
	Hint(container string) string
}

// Finder is a [Sandbox] that looks into all of its containers.
type Finder interface {
	// Find writes what is at an absolute path of a container to w, as a tar of that one
	// entry, or of none if nothing is there. No link is followed: one on the way is
	// written in place of what is behind it. The container may put any bytes into it.
	Find(ctx context.Context, container, path string, w io.Writer) error
}

// Observer is a [Sandbox] that watches what the programs of servers and services do
// besides answering.
type Observer interface {
	// Observe returns what those of a container did so far, by its guest's account. It
	// fails if the container has ended.
	Observe(ctx context.Context, container string) (observe.Seen, error)
}

// PortSharer is a [Sandbox] whose containers share the ports of one machine.
type PortSharer interface {
	// TakePort keeps a port for a server's program alone, until Close. It is called
	// before that is started, and fails if somebody else has the port: who
	// listens there would be taken for the server.
	TakePort(ctx context.Context, server string, port int) error
}

// Outlet is a [Sandbox] whose containers may reach what is outside, through the runner.
type Outlet interface {
	Sandbox
	// ListenAt accepts what connects to an address of a container's own loopback, until the
	// listener is closed or the container has ended. Names that the container may
	// reach resolve there, as egress.Names returns them.
	ListenAt(ctx context.Context, container string, at netip.AddrPort) (net.Listener, error)
}

// Services is a [Sandbox] whose servers may have services.
type Services interface {
	Sandbox
	// Ready returns once a service is ready: when check, started in the service's
	// container again and again, has exited with 0, or where it has no Args when the
	// image's own health check says so. From then on the service's server reaches
	// it under its name, and nothing else does. It ends with ctx; its error says
	// what the last check found.
	Ready(ctx context.Context, server, service string, check process.Spec) error
}

// What goes wrong with a backend, which opens sandboxes.
var (
	// ErrEngineGone means that what a backend is on went away, or does not answer.
	ErrEngineGone = errors.New("the engine went away")
	// ErrAlive means that another process is at work on a run.
	ErrAlive = errors.New("the run is still at work")
)

// Reconnector is a backend on an engine that can go away and come back.
type Reconnector interface {
	// Reconnect returns when sandboxes can be opened, or when ctx ends, with the reason
	// why they cannot.
	Reconnect(ctx context.Context) error
}

// HostProber is a backend that can look at its sandboxes from the machine they are on.
type HostProber interface {
	// HostProbe puts a container of ours onto the network of the machine that the
	// sandboxes are on, with all other walls of a sandbox's containers.
	HostProbe(ctx context.Context) (HostProbe, error)
	// Describe names everything of the engine and of our own build that walls may
	// depend on.
	Describe() map[string]string
}

// HostProbe runs programs beside the sandboxes. It ends with the runner.
type HostProbe interface {
	Start(ctx context.Context, p process.Spec) (process.Process, error)
	Close(ctx context.Context) error
}
