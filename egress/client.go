package egress

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waza-isolate/waza/evidence"
)

// helloTimeout is how long a connection may take to say where it is to go.
const helloTimeout = 10 * time.Second

// What told a connection's name.
const (
	byTLS     = "tls"
	byHTTP    = "http"
	byConnect = "connect"
)

// client is a connection of the container's.
type client struct {
	net.Conn
	carrier *Proxy
	place   Place

	again     bytes.Reader // what was read ahead, and is read first
	asked     atomic.Bool  // something was asked for, and is told by who answers that
	transport *http.Transport
	once      sync.Once
}

func newClient(c *Proxy, conn net.Conn, place Place) *client {
	return &client{Conn: conn, carrier: c, place: place, transport: c.newTransport()}
}

// attend finds out what the connection says, and sees it through.
func (cl *client) attend() {
	_ = cl.SetReadDeadline(time.Now().Add(helloTimeout))
	first := make([]byte, 1)
	if _, err := io.ReadFull(cl.Conn, first); err != nil {
		cl.done()
		return
	}
	if first[0] == tlsHandshake && cl.place.Host != "" {
		defer cl.done()
		cl.carryTLS(first)
		return
	}
	cl.unread(first)
	_ = cl.SetReadDeadline(time.Time{})
	cl.carrier.plain.put(cl) // which ends with its Close
}

// carryTLS carries a connection to the host that its ClientHello names.
func (cl *client) carryTLS(first []byte) {
	name, raw, err := readHello(io.MultiReader(bytes.NewReader(first), cl.Conn))
	_ = cl.SetReadDeadline(time.Time{})
	ask := asked{name: cmp.Or(name, cl.place.Host), port: int(cl.place.At.Port()), by: byTLS}
	host, ok := canonical(name)
	switch {
	case err != nil:
		cl.refuse(ask, errNoHello.Error())
	case name == "":
		cl.refuse(ask, "its ClientHello names no host")
	case !ok || !covers(cl.place.Host, host):
		cl.refuse(ask, fmt.Sprintf("its ClientHello names another host than %s, whose address it connected to", cl.place.Host))
	default:
		ask.name = host
		cl.asked.Store(true)
		far, err := cl.carrier.reach(cl.carrier.ctx, ask)
		if err != nil {
			cl.Abort()
			return
		}
		cl.unread(raw)
		Splice(cl, far)
	}
}

// refuse tells of what is not carried, and ends the connection.
func (cl *client) refuse(ask asked, why string) {
	cl.asked.Store(true)
	cl.carrier.refuse(ask, why)
	cl.Abort()
}

// unread has p read again, before all else.
func (cl *client) unread(p []byte) {
	rest := make([]byte, cl.again.Len())
	_, _ = cl.again.Read(rest)
	cl.again.Reset(append(p, rest...))
}

func (cl *client) Read(p []byte) (int, error) {
	if cl.again.Len() > 0 {
		return cl.again.Read(p)
	}
	return cl.Conn.Read(p)
}

// Close implements net.Conn. It is how the web server says that it is done.
func (cl *client) Close() error {
	cl.done()
	return nil
}

// CloseWrite implements Stream.
func (cl *client) CloseWrite() error {
	if half, ok := cl.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return cl.Conn.Close()
}

// Abort implements Stream.
func (cl *client) Abort() {
	switch conn := cl.Conn.(type) {
	case interface{ Abort() }:
		conn.Abort()
	case *net.TCPConn:
		_ = conn.SetLinger(0)
		_ = conn.Close()
	}
	cl.done()
}

// done closes the connection, and tells of it where nothing else was told.
func (cl *client) done() {
	cl.once.Do(func() {
		c := cl.carrier
		cl.transport.CloseIdleConnections()
		if !cl.asked.Load() {
			c.ledger.tell(evidence.Egress{
				Name: cl.place.Host, Port: int(cl.place.At.Port()), By: byHTTP,
				Why: "it said neither by TLS nor by a request of HTTP that can be read where it is to go",
			})
		}
		_ = cl.Conn.Close()
		c.forget(cl)
	})
}
