package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// SocketPath is where a container has the runner's socket for it alone, if runner and engine
// share a machine.
const SocketPath = "/run/waza/mux"

// The first byte that a guest writes to stdout says what carries the mux.
const (
	overPipe   = 'p'
	overSocket = 's'
)

// acceptTimeout is how long a guest that has chosen the socket may take to appear on it. It
// connects before it chooses.
const acceptTimeout = 5 * time.Second

// transport returns what carries the mux of a guest on pipe: pipe itself, or the one
// connection that ln takes. It closes ln, and with it removes the socket, before it returns.
// ln is nil where the container has no socket.
func transport(ctx context.Context, pipe io.ReadWriteCloser, ln *net.UnixListener) (io.ReadWriteCloser, error) {
	if ln != nil {
		defer func() { _ = ln.Close() }()
	}
	stop := context.AfterFunc(ctx, func() { _ = pipe.Close() })
	var choice [1]byte
	_, err := io.ReadFull(pipe, choice[:])
	switch {
	case !stop():
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	case choice[0] == overPipe:
		return pipe, nil
	case choice[0] != overSocket || ln == nil:
		return nil, fmt.Errorf("%w: transport %q", ErrProtocol, choice[0])
	}
	if err := ln.SetDeadline(time.Now().Add(acceptTimeout)); err != nil {
		return nil, err
	}
	stop = context.AfterFunc(ctx, func() { _ = ln.SetDeadline(time.Now()) })
	defer stop()
	conn, err := ln.AcceptUnix()
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	return &besidePipe{Conn: conn, pipe: pipe}, nil
}

// besidePipe is a connection on a container's socket. Closing it closes the container's
// stdin too.
type besidePipe struct {
	net.Conn
	pipe io.Closer
}

func (c *besidePipe) Close() error { return errors.Join(c.Conn.Close(), c.pipe.Close()) }
