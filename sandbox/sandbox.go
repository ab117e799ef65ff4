// Package sandbox defines the sandbox of one trial: starting programs in its containers,
// copying files in and out, and reporting why a container ended.
//
// A backend implements [Backend] and [Sandbox]. [Contained], [PortSharer], [Reconnector] and
// [HostProber] are optional. The package contains no implementation.
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

// Agent is the name of the agent's container. Other containers have the name of their server,
// or of a service, see [ServiceName].
const Agent = "agent"

// ServiceName returns the name of the container of a server's service.
func ServiceName(server, service string) string { return server + "/" + service }

// Opener opens sandboxes. On error nothing is left behind.
type Opener interface {
	// Open creates the network and the containers of a sandbox, and returns when process 1 of each
	// answers. Events inside go to observe until Close returns.
	Open(ctx context.Context, s *Spec, observe func(evidence.Event)) (Sandbox, error)
}

// Backend runs the sandboxes of a run: in containers, or as processes of this machine.
type Backend interface {
	Opener
	// Prepare gets everything that sandboxes need, such as images, before the first is opened. It
	// calls say for each image that is built or pulled.
	Prepare(ctx context.Context, all []*Spec, say func(string)) error
	// Describe returns properties of the engine, and those of this build that affect the walls.
	Describe() map[string]string
	// Images returns the images that were used, by reference.
	Images() evidence.ImageRecords
	// Close releases what belongs to the run as a whole. All sandboxes must be closed.
	Close(ctx context.Context) error
}

// Sandbox is the sandbox of one trial.
type Sandbox interface {
	// Listen opens the endpoints at which the agent reaches its servers, and its models if it
	// has any.
	Listen(ctx context.Context) ([]Endpoint, error)
	// Dial connects to a port on the loopback of a server's container, over IPv4 or IPv6.
	Dial(ctx context.Context, server string, port int) (net.Conn, error)
	// Start starts a program in a container. Without Args, or with OfImage, it is the image's.
	Start(ctx context.Context, container string, p process.Spec) (process.Process, error)
	// Put unpacks a tar into a directory of a container.
	Put(ctx context.Context, container, dir string, tar io.Reader) error
	// Collect writes a directory of a container to w as a tar, without links to [MCPConfigPath]. The
	// tar is not trusted. The error wraps [ErrUnreadable] if programs of the container removed or
	// replaced the directory, or made it unreadable.
	Collect(ctx context.Context, container, dir string, w io.Writer) error
	// Layout returns the actual paths in a container.
	Layout(container string) Layout
	// Usage returns the resource usage of a container as reported by its guest. After its end,
	// it is the last report. It fails if nothing is known.
	Usage(ctx context.Context, container string) (evidence.Usage, error)
	// Gone returns a channel that is closed when a container has ended. It is nil if containers
	// only end with Close.
	Gone(container string) <-chan struct{}
	// Ended returns why a container ended, or zero if it is running. It must be called before
	// Close. Programs in the container cannot make it blame somebody else.
	Ended(ctx context.Context, container string) Exit
	// Hint returns what may have prevented a program from starting in a container, and how to
	// fix it, or "".
	Hint(container string) string
	// Enter returns a command by which a person enters a container.
	Enter(container string) string
	// Guarantees returns what is actually enforced.
	Guarantees() evidence.Guarantees
	// Close ends everything, including the output of all processes. It may be called more than
	// once, and joins errors.
	Close(ctx context.Context) error
}

// Endpoint is a listener for the agent.
type Endpoint struct {
	net.Listener
	Server string // name of the server, or [ModelHost]; empty if the Host header decides
	Host   string // host and port of the server's URL; empty for its name
}

// Cause is who ended a container.
type Cause string

const (
	// ByItself means that programs in the container ended it, or that nobody else is known to
	// have.
	ByItself Cause = "itself"
	// ByBreach means the same, after data from the container violated the protocol.
	ByBreach Cause = "breach"
	// FromOutside means somebody else, through the engine.
	FromOutside Cause = "outside"
	// ByEngine means that the engine or its host went away.
	ByEngine Cause = "engine"
)

// Exit is why a container ended. It is zero while the container is running.
type Exit struct {
	Cause   Cause
	Message string // a predicate whose subject is the container
}

// Foreign reports whether programs in the container are not to blame.
func (e Exit) Foreign() bool { return e.Cause == FromOutside || e.Cause == ByEngine }

// Contained is a [Sandbox] whose programs are in containers. The runner can inspect each container,
// and carries all its traffic.
type Contained interface {
	Sandbox
	// Find writes what is at an absolute path of a container to w, as a tar with that one
	// entry, or an empty tar if there is nothing. Links are not followed: a link on the path is
	// returned itself. The tar is not trusted.
	Find(ctx context.Context, container, path string, w io.Writer) error
	// Observe returns what programs of a server's or service's container have done so far besides
	// answering, as reported by its guest. It fails if the container has ended.
	Observe(ctx context.Context, container string) (observe.Seen, error)
	// ListenAt listens on a loopback address of a container, until the listener is closed or
	// the container has ended. The names of [ContainerSpec.Outside] resolve to such addresses.
	ListenAt(ctx context.Context, container string, at netip.AddrPort) (net.Listener, error)
	// Ready waits until a service is ready: until check, which is repeated in the service's container,
	// exits with 0 or, if check has no Args, until the image's health check succeeds. From then on,
	// only the service's server can connect to it, by its name. If ctx is done first, Ready returns an
	// error with the result of the last check. failed is called with the result of each failed check.
	Ready(ctx context.Context, server, service string, check process.Spec, failed func(string)) error
}

// PortSharer is a [Sandbox] whose containers share the ports of one machine.
type PortSharer interface {
	// TakePort reserves a port for a server's program until Close. It is called before the
	// program starts, and fails if the port is in use, since another program could pass for the
	// server.
	TakePort(ctx context.Context, server string, port int) error
}

// Errors of backends and sandboxes.
var (
	// ErrEngineGone means that the engine has gone away or does not answer.
	ErrEngineGone = errors.New("the engine went away")
	// ErrUnreadable means that a container has no directory to collect, because its programs removed
	// or replaced it.
	ErrUnreadable = errors.New("it cannot be read")
	// ErrLeft means that a sandbox cannot be removed because of what its programs left.
	ErrLeft = errors.New("what its programs left cannot be removed")
	// ErrAlive means that another process uses the run.
	ErrAlive = errors.New("the run is still at work")
)

// Reconnector is a backend whose engine can go away and come back.
type Reconnector interface {
	// Reconnect waits until sandboxes can be opened. When ctx is done first, it returns why they
	// cannot.
	Reconnect(ctx context.Context) error
}

// HostProber is a backend that can start programs on the network of its host.
type HostProber interface {
	// HostProbe starts a container on the host's network, with all other walls of a sandbox's
	// containers.
	HostProbe(ctx context.Context) (HostProbe, error)
}

// HostProbe is a container on the host's network. It ends with the runner.
type HostProbe interface {
	Start(ctx context.Context, p process.Spec) (process.Process, error)
	Close(ctx context.Context) error
}
