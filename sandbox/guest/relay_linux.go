package guest

import (
	"errors"
	"io"
	"net"
	"time"

	"github.com/hashicorp/yamux"
	"golang.org/x/time/rate"
)

// maxConns is how many connections all listeners of a guest forward at once; more wait in the
// kernel's queue. It is below the limit of the runner's guard.
const (
	maxConns  = maxInbound - spareRoom
	spareRoom = 28
)

// relay forwards connections to addresses of this container to the runner: over sockets that
// the runner has passed, or over streams of the mux, within the limits of the runner's guard,
// which apply to all listeners together.
type relay struct {
	spares  chan stream // nil if the mux is used
	session *yamux.Session
	slots   chan struct{}
	pace    *rate.Limiter
}

func newRelay(session *yamux.Session) *relay {
	return &relay{
		session: session,
		slots:   make(chan struct{}, inboundLimit()-spareRoom),
		pace:    rate.NewLimiter(inboundRate/2, inboundBurst/2),
	}
}

// openStream returns a stream to the runner when the limits allow it, or fails when closed is closed.
// The caller calls leave after closing the stream.
func (r *relay) openStream(closed <-chan struct{}) (s stream, leave func(), err error) {
	if r.spares != nil {
		select {
		case s := <-r.spares:
			return s, func() {}, nil
		case <-closed:
			return nil, nil, net.ErrClosed
		}
	}
	select {
	case r.slots <- struct{}{}:
	case <-closed:
		return nil, nil, net.ErrClosed
	}
	leave = func() { <-r.slots }
	time.Sleep(r.pace.Reserve().Delay())
	opened, err := r.session.OpenStream()
	if err != nil {
		leave()
		return nil, nil, err
	}
	return muxStream{opened}, leave, nil
}

// accept listens until the runner ends the stream, and opens a stream for each connection.
func (r *relay) accept(l *link, req request) error {
	ln, err := net.Listen("tcp", req.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = ln.Close() }()
	if err := l.writeJSON(kindReply, reply{Addr: ln.Addr().String()}); err != nil {
		return err
	}
	closed := make(chan struct{})
	go func() {
		l.drain()
		close(closed)
		_ = ln.Close()
	}()
	for {
		c, err := ln.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil: // out of descriptors, or the connection was aborted
			time.Sleep(10 * time.Millisecond)
			continue
		}
		s, leave, err := r.openStream(closed)
		if err != nil {
			return c.Close()
		}
		go func() {
			defer leave()
			handIn(c.(*net.TCPConn), s, req.Accept)
		}()
	}
}

func handIn(c *net.TCPConn, s stream, accept uint64) {
	defer func() { _ = s.Close() }()
	l := newLink(s)
	if err := l.writeJSON(kindRequest, request{Verb: "conn", Accept: accept, Addr: c.RemoteAddr().String()}); err != nil {
		_ = c.Close()
		return
	}
	join(l, c)
}

// join copies data in both directions until the runner has closed its end, or one direction has
// failed. If a stream ends without EOF message the connection is reset, and vice versa.
func join(l *link, c *net.TCPConn) {
	far := newConn(l, c.LocalAddr().String(), c.RemoteAddr().String())
	inbound := make(chan struct{})
	go func() {
		defer close(inbound)
		_, err := io.CopyBuffer(onlyWriter{c}, far, make([]byte, maxPayload/2))
		if err == nil {
			err = c.CloseWrite()
		}
		if err == nil {
			l.drain() // a half-closed connection lasts until the runner closes it
		} else {
			_ = c.SetLinger(0)
		}
		_ = c.Close() // unblocks the copy below if it reads
		far.reset()   // or writes
	}()
	_, err := io.CopyBuffer(far, onlyReader{c}, make([]byte, maxPayload/2))
	if err == nil {
		err = far.CloseWrite()
	}
	if err != nil {
		far.reset() // unblocks the copy above
	}
	<-inbound
}

type onlyWriter struct{ io.Writer }

func dial(l *link, req request) error {
	c, err := net.DialTimeout("tcp", req.Addr, 10*time.Second)
	if err != nil {
		return err
	}
	if err := l.writeJSON(kindReply, reply{Addr: c.LocalAddr().String()}); err != nil {
		return errors.Join(err, c.Close())
	}
	join(l, c.(*net.TCPConn))
	return nil
}
