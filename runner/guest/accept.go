package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"time"
)

// Listen has the guest listen on address inside the container and hands in what
// connects. The listener ends with ctx, with Close, or with the session.
func (g *Guest) Listen(ctx context.Context, address string) (net.Listener, error) {
	in := &listener{guest: g, conns: make(chan incoming), done: make(chan struct{})}
	g.mu.Lock()
	g.lastID++
	in.id = g.lastID
	g.accepts[in.id] = in
	g.mu.Unlock()
	l, r, err := g.begin(ctx, request{Verb: "accept", Addr: address, Accept: in.id})
	if err != nil {
		g.forget(in.id)
		return nil, err
	}
	in.control, in.addr = l, addr(r.Addr)
	return in, nil
}

func (g *Guest) forget(id uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.accepts, id)
}

// serveIncoming takes in the streams that the guest opens. Each must say which
// accept it is for; anything else ends the session.
func (g *Guest) serveIncoming() {
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		stream, err := g.session.Accept()
		if err != nil {
			return
		}
		conns.Go(func() {
			if err := g.admit(stream); err != nil {
				_ = closeStream(stream)
			}
		})
	}
}

func (g *Guest) admit(stream net.Conn) error {
	if err := stream.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	l := &link{stream: stream}
	k, p, err := l.message()
	if err != nil {
		return err
	}
	var req request
	if k != kindRequest || json.Unmarshal(p, &req) != nil || req.Verb != "conn" {
		return fmt.Errorf("%w: unasked stream: %w", errProtocol, g.session.Close())
	}
	g.mu.Lock()
	in := g.accepts[req.Accept]
	g.mu.Unlock()
	if in == nil {
		return net.ErrClosed // the listener was closed while the connection came in
	}
	if err := stream.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	select {
	case in.conns <- incoming{l, req.Addr}:
		return nil
	case <-in.done:
		return net.ErrClosed
	case <-g.session.CloseChan():
		return net.ErrClosed
	}
}

// incoming is a connection that was handed in and not yet taken.
type incoming struct {
	link *link
	peer string
}

type listener struct {
	guest   *Guest
	id      uint64
	control *link
	addr    addr
	conns   chan incoming
	done    chan struct{}
	once    sync.Once
}

func (in *listener) Accept() (net.Conn, error) {
	select {
	case c := <-in.conns:
		return newConn(c.link, in.addr.String(), c.peer), nil
	case <-in.done:
	case <-in.guest.session.CloseChan():
	}
	return nil, net.ErrClosed
}

func (in *listener) Close() (err error) {
	in.once.Do(func() {
		close(in.done)
		in.guest.forget(in.id)
		err = closeStream(in.control.stream)
	})
	return err
}

func (in *listener) Addr() net.Addr { return in.addr }
