package guest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// errReset means that a connection ended without an EOF message.
var errReset = fmt.Errorf("at the container: %w", syscall.ECONNRESET)

// addr is an address as reported by the guest.
type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

// conn is a TCP connection in the container, over one stream. It is a net.Conn with CloseWrite.
type conn struct {
	*link
	out    dataWriter
	local  addr
	remote addr

	reading sync.Mutex // also guards the link's reader
	eof     bool       // guarded by reading
	readBy  deadline

	writing sync.Mutex
	writeBy deadline

	once    sync.Once
	release func() // called after Close; may be nil
}

func newConn(l *link, local, remote string) *conn {
	c := &conn{link: l, local: addr(local), remote: addr(remote)}
	c.out = dataWriter{link: l, data: kindData, eof: kindEOF}
	return c
}

func (c *conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.readBy.passed() {
		return 0, os.ErrDeadlineExceeded
	}
	for !c.eof && c.left == 0 {
		k, err := c.next()
		switch {
		case err != nil:
			return 0, resetOf(err)
		case k == kindEOF:
			c.eof = true
		case k == kindError:
			reason, err := c.payload()
			return 0, errors.Join(fmt.Errorf("connection at the container: %s", reason), err)
		case k != kindData:
			return 0, c.breach(fmt.Errorf("%w: message kind %d on a connection", ErrProtocol, k))
		}
	}
	if c.eof {
		return 0, io.EOF
	}
	n, err := c.readSome(p)
	return n, resetOf(err)
}

// resetOf turns the end of a stream without an EOF message into errReset.
func resetOf(err error) error {
	if errors.Is(err, io.EOF) {
		return errReset
	}
	return err
}

func (c *conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	written := 0
	for first := true; first || written < len(p); first = false {
		if c.writeBy.passed() {
			return written, os.ErrDeadlineExceeded
		}
		n, err := c.out.Write(p[written:min(written+maxPayload, len(p))])
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// CloseWrite closes the write side.
func (c *conn) CloseWrite() error { return c.out.Close() }

// Close closes both sides. It sends an EOF message if that is possible immediately; otherwise
// the other end treats the connection as reset. It does not wait for the peer.
func (c *conn) Close() (err error) {
	c.once.Do(func() {
		c.stopWriting()
		c.writeBy.set(time.Now())
		if c.writing.TryLock() { // otherwise a Write is interrupted
			_ = c.out.Close()
			c.writing.Unlock()
		}
		err = c.stream.Close()
		if c.release != nil {
			c.release()
		}
	})
	return err
}

// Abort closes the connection as reset, after data was lost.
func (c *conn) Abort() {
	c.once.Do(func() {
		c.reset()
		if c.release != nil {
			c.release()
		}
	})
}

// reset closes the stream without an EOF message.
func (c *conn) reset() { _ = c.stream.Close() }

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.readBy.set(t)
	return c.stream.SetReadDeadline(t)
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.writeBy.set(t)
	return c.stream.SetWriteDeadline(t)
}

// deadline is a deadline that stays exceeded until it is set again. yamux checks its own only
// when it has to wait.
type deadline struct{ at atomic.Pointer[time.Time] }

func (d *deadline) set(t time.Time) { d.at.Store(&t) }

func (d *deadline) passed() bool {
	t := d.at.Load()
	return t != nil && !t.IsZero() && !time.Now().Before(*t)
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }
