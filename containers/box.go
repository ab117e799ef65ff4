package containers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/testcontainers/testcontainers-go"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/retry"
	"github.com/waza-isolate/waza/sandbox/guest"
)

const (
	startTimeout = 60 * time.Second
	// endGrace is how long process 1 may take to end once its stdin is closed.
	endGrace = 5 * time.Second
)

// startedContainer is one running container and the talk with its process 1.
type startedContainer struct {
	id      string
	onNet   bool // it has an address on the task network
	guest   *guest.Guest
	image   imageInfo
	removed <-chan error // one value, once the container is gone
	cancel  context.CancelFunc
	stderr  *bounded.Ends
	// followed is what the engine says of the container; nil before it is created.
	followed *followed
	meter    *meter                   // nil outside a trial
	writable []string                 // directories, likewise
	service  testcontainers.Container // of a service, else nil
}

// startContainer creates, attaches to, and starts a container, in that order: one that
// is started unattached would have nobody to end it. On error nothing is left.
func (e *engine) startContainer(ctx context.Context, c containerPlan, network string) (_ *startedContainer, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	id, err := e.createContainer(ctx, &c.conf, &c.host, c.networking(network), c.name)
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", c.name, err)
	}
	b := &startedContainer{id: id, onNet: c.addr.IsValid(), image: c.image, stderr: &bounded.Ends{Tail: tailSize}, followed: e.watch.follow(id)}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close(context.WithoutCancel(ctx), e))
		}
	}()
	attached, err := e.ContainerAttach(ctx, b.id, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, fmt.Errorf("attach to %s: %w", c.name, err)
	}
	b.removed, b.cancel = e.awaitRemoval(context.WithoutCancel(ctx), b.id)
	if err := e.ContainerStart(ctx, b.id, container.StartOptions{}); err != nil {
		attached.Close()
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	b.guest, err = guest.Connect(ctx, newPipe(attached.Conn, attached.Reader, b.stderr))
	if err != nil {
		return nil, fmt.Errorf("%s: %w%s", c.name, err, behind(b.stderr))
	}
	return b, nil
}

func (e *engine) createContainer(ctx context.Context, conf *container.Config, host *container.HostConfig, net *network.NetworkingConfig, name string) (string, error) {
	ctx, cancel := creating(ctx)
	defer cancel()
	created, err := e.ContainerCreate(ctx, conf, host, net, nil, name)
	return created.ID, err
}

// awaitRemoval begins to wait before the container is started, so that its end
// cannot be missed.
func (e *engine) awaitRemoval(ctx context.Context, id string) (<-chan error, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	statuses, errs := e.ContainerWait(ctx, id, container.WaitConditionRemoved)
	removed := make(chan error, 1)
	go func() {
		select {
		case <-statuses:
			removed <- nil
		case err := <-errs:
			removed <- err
		}
	}()
	return removed, cancel
}

// close ends the container and returns when it is gone. A guest that does not
// end by itself is removed by force.
func (b *startedContainer) close(ctx context.Context, e *engine) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	if b.cancel != nil {
		defer b.cancel()
	}
	if b.followed != nil {
		b.followed.leave()
	}
	switch {
	case b.service != nil:
		// How it fails where the container is gone already varies; what counts is
		// whether it is.
		_ = b.service.Terminate(ctx, testcontainers.StopTimeout(0))
	case b.leave():
		return nil
	case !defence.EndingContainers:
		b.abandon()
		return nil
	}
	return e.removeContainer(ctx, b.id)
}

// abandon lets go of a container, and leaves it to others to see that it is gone.
func (b *startedContainer) abandon() {
	b.followed.leave()
	b.cancel()
	_ = b.guest.Close()
}

// leave ends the talk with process 1 and waits until the container is gone, which
// it says.
func (b *startedContainer) leave() bool {
	if b.guest == nil {
		return false
	}
	_ = b.guest.Close()
	select {
	case err := <-b.removed:
		return err == nil || errdefs.IsNotFound(err)
	case <-time.After(endGrace):
		return false
	}
}

// removeContainer removes by force and waits until the container is gone.
func (e *engine) removeContainer(ctx context.Context, id string) error {
	for {
		err := e.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
		switch {
		case err == nil || errdefs.IsNotFound(err):
			return nil
		case !errdefs.IsConflict(err): // "removal is already in progress"
			return fmt.Errorf("remove container %.12s: %w", id, err)
		}
		if _, err := e.ContainerInspect(ctx, id); errdefs.IsNotFound(err) {
			return nil
		}
		if err := retry.Sleep(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("remove container %.12s: %w", id, err)
		}
	}
}

// pipe is a container's attached stdin and stdout.
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

// Close drops the attachment; the engine then closes the container's stdin.
func (p *pipe) Close() error {
	err := errors.Join(p.conn.Close(), p.stdout.Close())
	<-p.done
	return err
}

// tailSize is how much of the end of an output goes into a message.
const tailSize = 2 << 10

// behind puts what was said behind a colon, where there is some.
func behind(said *bounded.Ends) string {
	text := strings.TrimSpace(said.String())
	if text == "" {
		return ""
	}
	return ": " + text
}
