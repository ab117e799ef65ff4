package egress

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/web"
)

// helloTimeout is the time within which a connection must name its destination.
const helloTimeout = 10 * time.Second

// Ways in which a connection names its host.
const (
	byTLS     = "tls"
	byHTTP    = "http"
	byConnect = "connect"
)

// client is a connection from the container.
type client struct {
	net.Conn
	proxy *Proxy
	place Place

	again     bytes.Reader // bytes that were read ahead, to be read first
	asked     atomic.Bool  // it has named a host; that attempt is recorded elsewhere
	transport *http.Transport
	once      sync.Once
}

func newClient(p *Proxy, conn net.Conn, place Place) *client {
	return &client{Conn: conn, proxy: p, place: place, transport: p.newTransport()}
}

// attend serves the connection as TLS or HTTP, depending on its first byte.
func (cl *client) attend() {
	_ = cl.SetReadDeadline(time.Now().Add(helloTimeout))
	first := make([]byte, 1)
	if _, err := io.ReadFull(cl.Conn, first); err != nil {
		cl.done()
		return
	}
	if first[0] == tlsHandshake && cl.place.Host != "" {
		defer cl.done()
		cl.spliceTLS(first)
		return
	}
	cl.unread(first)
	_ = cl.SetReadDeadline(time.Time{})
	web.Serve(cl.proxy.web, cl) // ends with Close
}

// spliceTLS connects to the host named in the ClientHello and copies in both directions.
func (cl *client) spliceTLS(first []byte) {
	name, raw, err := readHello(io.MultiReader(bytes.NewReader(first), cl.Conn))
	_ = cl.SetReadDeadline(time.Time{})
	ask := asked{name: cmp.Or(name, cl.place.Host), port: int(cl.place.At.Port()), by: byTLS}
	host, ok := canonical(name)
	switch {
	case err != nil:
		cl.refuse(ask, errNoHello.Error())
	case name == "":
		cl.refuse(ask, "its ClientHello does not name a host")
	case !ok || !covers(cl.place.Host, host):
		cl.refuse(ask, fmt.Sprintf("its ClientHello names a host other than %s, whose address it connected to", cl.place.Host))
	default:
		ask.name = host
		cl.asked.Store(true)
		far, err := cl.proxy.reach(cl.proxy.ctx, ask)
		if err != nil {
			cl.Abort()
			return
		}
		cl.unread(raw)
		Splice(cl, far)
	}
}

// refuse records why the connection is refused, and closes it.
func (cl *client) refuse(ask asked, why string) {
	cl.asked.Store(true)
	cl.proxy.refuse(ask, why)
	cl.Abort()
}

// unread makes Read return p before anything else.
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

// Close implements net.Conn. It is called by the web server.
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

// done closes the connection, and records it if it has not named a host.
func (cl *client) done() {
	cl.once.Do(func() {
		p := cl.proxy
		cl.transport.CloseIdleConnections()
		if !cl.asked.Load() {
			p.ledger.add(evidence.Egress{
				Name: cl.place.Host, Port: int(cl.place.At.Port()), By: byHTTP,
				Why: "it did not name its destination in a readable TLS ClientHello or HTTP request",
			})
		}
		_ = cl.Conn.Close()
		p.forget(cl)
	})
}

// maxHello is the maximum size of a ClientHello including record headers, in bytes. Those
// of browsers are smaller than 4 KiB.
const maxHello = 32 << 10

// tlsHandshake is the first byte of a TLS record with a handshake message. No HTTP request
// begins with it.
const tlsHandshake = 0x16

var errNoHello = errors.New("it began like TLS but did not send a readable ClientHello")

// readHello reads a ClientHello and returns the server name in it, which may be empty, and
// all bytes read. It writes nothing.
func readHello(r io.Reader) (name string, raw []byte, err error) {
	var seen bytes.Buffer
	var hello *tls.ClientHelloInfo
	enough := errors.New("read")
	err = tls.Server(listening{io.TeeReader(io.LimitReader(r, maxHello), &seen)}, &tls.Config{
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			hello = h
			return nil, enough
		},
	}).Handshake()
	if hello == nil {
		return "", seen.Bytes(), errors.Join(errNoHello, err)
	}
	return hello.ServerName, seen.Bytes(), nil
}

// listening is a read-only connection.
type listening struct{ io.Reader }

func (listening) Write(p []byte) (int, error)      { return len(p), nil }
func (listening) Close() error                     { return nil }
func (listening) LocalAddr() net.Addr              { return nil }
func (listening) RemoteAddr() net.Addr             { return nil }
func (listening) SetDeadline(time.Time) error      { return nil }
func (listening) SetReadDeadline(time.Time) error  { return nil }
func (listening) SetWriteDeadline(time.Time) error { return nil }
