package containers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guest"
	"github.com/waza-isolate/waza/sandbox/guests"
)

const (
	startTimeout = 2 * time.Minute
	// endGrace is how long to wait for process 1 to exit after its stdin is closed.
	endGrace = 5 * time.Second
	// tailSize is how many bytes at the end of an output are shown in messages.
	tailSize = 2 << 10
)

// starter starts containers and connects to their guests.
type starter struct {
	engine *engine
	watch  *watch
	// library returns testcontainers with our engine. It is initialized for the first service.
	library func() (*testcontainers.DockerProvider, error)
	// remote is set when the engine has failed to mount a directory of this machine.
	remote *atomic.Bool
}

// start creates, attaches to and starts a container, in this order, because a container without
// attachment would not end with the runner. On error nothing is left.
func (s *starter) start(ctx context.Context, p containerPlan, network string) (_ *startedContainer, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if !s.engine.info.CPUCfsQuota { // it refuses this limit if it cannot enforce it, and leaves out the others
		p.host.NanoCPUs = 0
	}
	c := &startedContainer{engine: s.engine, plan: p}
	c.Program, c.Stderr = p.image.Program, &bounded.Ends{Tail: tailSize}
	c.Starved = func(ctx context.Context) bool { return c.followed.starved(ctx, c.Guest.Err() != nil) }
	defer func() {
		if err != nil && c.id != "" {
			err = errors.Join(err, c.Close(context.WithoutCancel(ctx)))
		}
	}()
	if p.Role == sandbox.RoleService {
		if err := s.startService(ctx, p, c); err != nil {
			return nil, err
		}
		return c, nil
	}
	if err := s.create(ctx, p, network, c); err != nil {
		return nil, fmt.Errorf("create %s: %w", p.engineName, err)
	}
	defer c.socket.remove()
	if err := c.attach(ctx, s.watch); err != nil {
		return nil, fmt.Errorf("attach to %s: %w", p.engineName, err)
	}
	if _, err := s.engine.ContainerStart(ctx, c.id, client.ContainerStartOptions{}); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.engineName, err)
	}
	if err := c.connect(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w%s", p.engineName, err, c.Stderr.Suffix())
	}
	return c, nil
}

// create creates a container. If the engine is on this machine, the guest gets a socket.
func (s *starter) create(ctx context.Context, p containerPlan, network string, c *startedContainer) (err error) {
	conf, host := p.conf, p.host
	if !s.remote.Load() {
		c.socket = newSocket(s.engine.DaemonHost(), &conf, &host)
	}
	c.id, err = s.engine.createContainer(ctx, &conf, &host, p.networking(network), p.engineName)
	if c.socket != nil && errdefs.IsInvalidArgument(err) { // the engine cannot access the directory
		c.socket.remove()
		c.socket = nil
		if c.id, err = s.engine.createContainer(ctx, &p.conf, &p.host, p.networking(network), p.engineName); err == nil {
			s.remote.Store(true)
		}
	}
	return err
}

// startedContainer is a running container with the connection to its process 1.
type startedContainer struct {
	guests.Container
	engine   *engine
	plan     containerPlan
	id       string
	attached client.ContainerAttachResult
	socket   *socket      // nil if there is none, and for services
	removed  <-chan error // receives one value when the container is removed
	cancel   context.CancelFunc
	followed *containerEvents         // the engine's events about the container
	service  testcontainers.Container // for a service, else nil
}

// attach attaches to a created container, and starts to wait for its removal, so that its exit
// cannot be missed.
func (c *startedContainer) attach(ctx context.Context, w *watch) (err error) {
	c.followed = w.follow(c.id)
	c.attached, err = c.engine.ContainerAttach(ctx, c.id, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return err
	}
	ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	wait := c.engine.ContainerWait(ctx, c.id, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved})
	removed := make(chan error, 1)
	c.removed = removed
	go func() {
		select {
		case <-wait.Result:
			removed <- nil
		case err := <-wait.Error:
			removed <- err
		}
	}()
	return nil
}

// connect connects to process 1 of a started container.
func (c *startedContainer) connect(ctx context.Context) (err error) {
	c.Guest, err = guest.Connect(ctx, newPipe(c.attached.Conn, c.attached.Reader, c.Stderr), c.socket.listener())
	return err
}

// Close ends the container and waits until it is removed. If its guest does not exit, it is
// removed by force.
func (c *startedContainer) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	if c.cancel != nil {
		defer c.cancel()
	}
	if c.followed != nil {
		c.followed.unfollow()
	}
	switch {
	case c.service != nil:
		// The error differs between versions if the container is already gone, so check for the
		// container below.
		_ = c.service.Terminate(ctx, testcontainers.StopTimeout(0))
	case c.waitRemoved():
		return nil
	case !defence.EndingContainers:
		c.abandon()
		return nil
	}
	return c.engine.removeContainer(ctx, c.id)
}

// abandon closes the connections to a container without removing it.
func (c *startedContainer) abandon() {
	c.followed.unfollow()
	c.cancel()
	_ = c.Guest.Close()
}

// waitRemoved closes the connection to process 1 and waits for the container's removal. It reports
// whether the container is gone.
func (c *startedContainer) waitRemoved() bool {
	if c.Guest == nil {
		if c.attached.Conn != nil {
			c.attached.Close()
		}
		return false
	}
	_ = c.Guest.Close()
	select {
	case err := <-c.removed:
		return err == nil || errdefs.IsNotFound(err)
	case <-time.After(endGrace):
		return false
	}
}

// answers returns nil if process 1 answers.
func (c *startedContainer) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return c.Guest.Ping(ctx)
}

// pipe is the attached stdin and stdout of a container.
type pipe struct {
	conn   net.Conn
	stdout *io.PipeReader
	done   chan struct{}
}

func newPipe(conn net.Conn, in io.Reader, stderr io.Writer) *pipe {
	r, w := io.Pipe()
	p := &pipe{conn: conn, stdout: r, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_, err := stdcopy.StdCopy(w, stderr, in)
		if err == nil {
			err = io.EOF
		}
		_ = w.CloseWithError(err)
	}()
	return p
}

func (p *pipe) Read(b []byte) (int, error)  { return p.stdout.Read(b) }
func (p *pipe) Write(b []byte) (int, error) { return p.conn.Write(b) }

// Close closes the attachment. The engine then closes the container's stdin.
func (p *pipe) Close() error {
	err := errors.Join(p.conn.Close(), p.stdout.Close())
	<-p.done
	return err
}
