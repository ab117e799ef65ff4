package web

import (
	"io"
	"net"
	"net/http"
)

// Serve makes a server serve conn and then close it. It returns at once. If the server is
// closed, it closes conn.
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

// Close implements net.Listener. It does not close the connection.
func (l *listener) Close() error { return nil }

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.LocalAddr() }
