package guest

import (
	"errors"
	"io"
	"net"
	"time"
)

// maxConns is how many connections one accept carries at once; more wait in the
// kernel's queue. It stays under the runner's guard.
const maxConns = maxInbound - 28

// accept listens until the runner ends the stream, and opens a stream of our own
// for each connection.
func (s *servant) accept(l *link, req request) error {
	ln, err := net.Listen("tcp", req.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = ln.Close() }()
	if err := l.writeJSON(kindReply, reply{Addr: ln.Addr().String()}); err != nil {
		return err
	}
	go func() {
		_, _, _ = l.message() // only ever its end
		_ = ln.Close()
	}()
	slots := make(chan struct{}, maxConns)
	pace := bucket{rate: inboundRate / 2, burst: inboundBurst / 2, tokens: inboundBurst / 2}
	for {
		slots <- struct{}{}
		for !pace.take(time.Now()) {
			time.Sleep(time.Millisecond)
		}
		c, err := ln.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil: // out of descriptors, or the peer was gone already
			<-slots
			time.Sleep(10 * time.Millisecond)
			continue
		}
		go func() {
			defer func() { <-slots }()
			s.handIn(c.(*net.TCPConn), req.Accept)
		}()
	}
}

func (s *servant) handIn(c *net.TCPConn, accept uint64) {
	stream, err := s.session.Open()
	if err != nil {
		_ = c.Close()
		return
	}
	defer func() { _ = closeStream(stream) }()
	l := &link{stream: stream}
	if err := l.writeJSON(kindRequest, request{Verb: "conn", Accept: accept, Addr: c.RemoteAddr().String()}); err != nil {
		_ = c.Close()
		return
	}
	join(l, c)
}

// join carries bytes both ways until both directions have ended or one has
// failed. A stream that ends without an end of data resets the connection.
func join(l *link, c *net.TCPConn) {
	far := newConn(l, c.LocalAddr().String(), c.RemoteAddr().String())
	inbound := make(chan error, 1)
	go func() {
		_, err := io.CopyBuffer(onlyWriter{c}, far, make([]byte, maxPayload/2))
		if err == nil {
			err = c.CloseWrite()
		}
		if err != nil {
			_ = c.SetLinger(0)
			_ = c.Close() // ends the copy below
		}
		inbound <- err
	}()
	_, err := io.CopyBuffer(far, onlyReader{c}, make([]byte, maxPayload/2))
	if err == nil {
		err = far.CloseWrite()
	}
	if err != nil {
		_ = far.Close() // ends the copy above
	}
	<-inbound
	_ = c.Close()
}

type onlyWriter struct{ io.Writer }
