package guest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// addr is a peer's address as the guest tells it.
type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

// conn is a TCP connection at the guest's end, carried over one stream. It is a
// net.Conn with CloseWrite.
type conn struct {
	*link
	out    dataWriter
	local  addr
	remote addr
	eof    bool // used by the one reader
}

func newConn(l *link, local, remote string) *conn {
	c := &conn{link: l, local: addr(local), remote: addr(remote)}
	c.out = dataWriter{link: l, data: kindData, eof: kindEOF}
	return c
}

func (c *conn) Read(p []byte) (int, error) {
	for !c.eof && c.left == 0 {
		k, _, err := c.next()
		switch {
		case err != nil:
			return 0, err
		case k == kindEOF:
			c.eof = true
		case k == kindError:
			reason, err := c.payload()
			return 0, errors.Join(fmt.Errorf("connection at the container: %s", reason), err)
		case k != kindData:
			return 0, fmt.Errorf("%w: message kind %d on a connection", errProtocol, k)
		}
	}
	if c.eof {
		return 0, io.EOF
	}
	return c.readSome(p)
}

func (c *conn) Write(p []byte) (int, error) { return c.out.Write(p) }

// CloseWrite ends this direction alone.
func (c *conn) CloseWrite() error { return c.out.Close() }

// Close ends both directions. The other end takes the stream's end for a reset
// where no end of data came before it.
func (c *conn) Close() error {
	return closeStream(c.stream)
}

func (c *conn) SetDeadline(t time.Time) error      { return c.stream.SetDeadline(t) }
func (c *conn) SetReadDeadline(t time.Time) error  { return c.stream.SetReadDeadline(t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.stream.SetWriteDeadline(t) }

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// closeStream closes a stream for good: yamux's Close alone is a half-close that
// leaves a blocked Read waiting for the other end.
func closeStream(stream net.Conn) error {
	err := stream.Close()
	return errors.Join(err, stream.SetReadDeadline(time.Now()))
}
