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
	proxy *Proxy
	place Place

	again     bytes.Reader // what was read ahead, and is read first
	asked     atomic.Bool  // something was asked for, and is told by who answers that
	transport *http.Transport
	once      sync.Once
}

func newClient(p *Proxy, conn net.Conn, place Place) *client {
	return &client{Conn: conn, proxy: p, place: place, transport: p.newTransport()}
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
		cl.spliceTLS(first)
		return
	}
	cl.unread(first)
	_ = cl.SetReadDeadline(time.Time{})
	cl.proxy.plain.put(cl) // which ends with its Close
}

// spliceTLS connects to the host that its ClientHello names, and copies both ways.
func (cl *client) spliceTLS(first []byte) {
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
		far, err := cl.proxy.reach(cl.proxy.ctx, ask)
		if err != nil {
			cl.Abort()
			return
		}
		cl.unread(raw)
		Splice(cl, far)
	}
}

// refuse records why the connection goes nowhere, and ends it.
func (cl *client) refuse(ask asked, why string) {
	cl.asked.Store(true)
	cl.proxy.refuse(ask, why)
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
		p := cl.proxy
		cl.transport.CloseIdleConnections()
		if !cl.asked.Load() {
			p.ledger.tell(evidence.Egress{
				Name: cl.place.Host, Port: int(cl.place.At.Port()), By: byHTTP,
				Why: "it said neither by TLS nor by a request of HTTP that can be read where it is to go",
			})
		}
		_ = cl.Conn.Close()
		p.forget(cl)
	})
}

// maxHello is how much a ClientHello may be, with its records' headers. Those of
// browsers are below 4 KiB.
const maxHello = 32 << 10

// tlsHandshake is the first byte of a TLS record that holds a handshake message; no
// request of HTTP begins so.
const tlsHandshake = 0x16

var errNoHello = errors.New("it began as TLS does, and no ClientHello that can be read came")

// readHello reads a ClientHello and returns the server's name in it, empty where it has
// none, and all that was read. Nothing is answered.
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

// listening is a connection that is read, and never answered.
type listening struct{ io.Reader }

func (listening) Write(p []byte) (int, error)      { return len(p), nil }
func (listening) Close() error                     { return nil }
func (listening) LocalAddr() net.Addr              { return nil }
func (listening) RemoteAddr() net.Addr             { return nil }
func (listening) SetDeadline(time.Time) error      { return nil }
func (listening) SetReadDeadline(time.Time) error  { return nil }
func (listening) SetWriteDeadline(time.Time) error { return nil }
