package egress

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

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
