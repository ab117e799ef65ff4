package web

import (
	"io"
	"net"
	"net/http"
)

// Serve hands conn to a server, which serves and closes it, and returns at once. It closes conn
// if the server is closed.
func Serve(server *http.Server, conn net.Conn) {
	l := &listener{Conn: conn}
	if _ = server.Serve(l); !l.accepted {
		_ = conn.Close()
	}
}

// listener accepts one connection.
type listener struct {
	net.Conn
	accepted bool
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	if l.accepted {
		return nil, io.EOF
	}
	l.accepted = true
	return l.Conn, nil
}

// Close implements net.Listener. The connection stays open.
func (l *listener) Close() error { return nil }

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.LocalAddr() }
