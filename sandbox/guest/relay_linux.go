package guest

import (
	"errors"
	"io"
	"net"
	"time"

	"golang.org/x/time/rate"
)

// maxConns is how many connections all accepts of a guest carry at once; more
// wait in the kernel's queue. It stays under the runner's guard.
const (
	maxConns  = maxInbound - spareRoom
	spareRoom = 28
)

// gate keeps a guest's connections under the runner's guard, which counts those
// of all listeners together.
type gate struct {
	slots chan struct{}
	pace  *rate.Limiter
}

func newGate() *gate {
	return &gate{
		slots: make(chan struct{}, inboundLimit()-spareRoom),
		pace:  rate.NewLimiter(inboundRate/2, inboundBurst/2),
	}
}

// enter waits for its turn; it is false where closed came first.
func (g *gate) enter(closed <-chan struct{}) bool {
	select {
	case g.slots <- struct{}{}:
	case <-closed:
		return false
	}
	time.Sleep(g.pace.Reserve().Delay())
	return true
}

func (g *gate) leave() { <-g.slots }

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
		case err != nil: // out of descriptors, or the peer was gone already
			time.Sleep(10 * time.Millisecond)
			continue
		case !s.gate.enter(closed):
			return c.Close()
		}
		go func() {
			defer s.gate.leave()
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

// join carries bytes both ways until the runner has closed its end, or one way
// has failed. A stream that ends without an end of data resets the connection,
// and a connection that is reset so ends the stream.
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
			l.drain() // a half-close lasts until the runner closes
		} else {
			_ = c.SetLinger(0)
		}
		_ = c.Close() // ends the copy below where it reads
		far.reset()   // or writes
	}()
	_, err := io.CopyBuffer(far, onlyReader{c}, make([]byte, maxPayload/2))
	if err == nil {
		err = far.CloseWrite()
	}
	if err != nil {
		far.reset() // ends the copy above
	}
	<-inbound
}

type onlyWriter struct{ io.Writer }
