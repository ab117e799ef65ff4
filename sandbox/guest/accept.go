package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
	"golang.org/x/time/rate"
)

// Listen makes the guest listen on address inside the container, and returns a listener for the
// connections. ctx only applies to the request. The listener ends with Close or with the
// session.
func (g *Guest) Listen(ctx context.Context, address string) (net.Listener, error) {
	in := &listener{guest: g, conns: make(chan incoming), done: make(chan struct{})}
	g.mu.Lock()
	g.lastID++
	in.id = g.lastID
	g.accepts[in.id] = in
	g.mu.Unlock()
	if g.sockets != nil {
		g.listening.Do(func() { g.incoming.Go(g.serveSpares) })
	}
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

// serveIncoming accepts the streams that the guest opens. Each must name the accept request
// that it is for; anything else ends the session. Streams beyond maxInbound are closed. That is
// not a violation, since the guest may have closed its side of streams that we still use.
func (g *Guest) serveIncoming(session *yamux.Session) {
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		accepted, err := session.AcceptStream()
		if err != nil {
			g.ended(endReason(session, err))
			return
		}
		stream := muxStream{accepted}
		select {
		case g.inbound <- struct{}{}:
		default:
			_ = stream.Close()
			continue
		}
		conns.Go(func() {
			_ = stream.SetReadDeadline(time.Now().Add(admitTimeout))
			g.admit(stream, func() {})
		})
	}
}

const (
	// admitTimeout is how long a guest may take to state what a new stream is for.
	admitTimeout = 10 * time.Second
	// sparesAhead is how many sockets a guest has in advance for incoming connections.
	sparesAhead = 8
)

// serveSpares keeps sockets available to the guest for incoming connections, and admits those
// that it uses. Their number and rate have the same limits as with the mux.
func (g *Guest) serveSpares() {
	var conns sync.WaitGroup
	defer conns.Wait()
	unused := make(chan struct{}, sparesAhead)
	pace := rate.NewLimiter(inboundRate, inboundBurst)
	for {
		for _, room := range []chan struct{}{unused, g.inbound} {
			select {
			case room <- struct{}{}:
			case <-g.done:
				return
			}
		}
		if !waitTurn(pace, g.done) {
			return
		}
		stream, err := g.sockets.openStream(useSpare)
		if err != nil {
			_, _ = <-unused, <-g.inbound
			time.Sleep(time.Second / 10) // the runner is out of descriptors, or the guest does not receive them
			continue
		}
		conns.Go(func() { g.admit(stream, func() { <-unused }) })
	}
}

// endReason closes the session and returns the reason for its end. err may come from a stream that
// was accepted earlier.
func endReason(session *yamux.Session, err error) error {
	if closed := session.Close(); closed != nil {
		return errors.Join(err, closed)
	}
	for range acceptedAhead {
		if !errors.Is(err, yamux.ErrSessionShutdown) {
			break
		}
		_, err = session.Accept()
	}
	if brokeMux(err) {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return err
}

// brokeMux reports whether err means that the guest violated the mux's protocol.
func brokeMux(err error) bool {
	for _, rule := range []error{yamux.ErrInvalidVersion, yamux.ErrInvalidMsgType, yamux.ErrDuplicateStream, yamux.ErrRecvWindowExceeded, yamux.ErrUnexpectedFlag} {
		if errors.Is(err, rule) {
			return true
		}
	}
	return false
}

// admit passes a stream to its listener. The stream has a slot in inbound. used is called once
// the guest has stated what it is for.
func (g *Guest) admit(s stream, used func()) {
	release := func() { <-g.inbound }
	if err := g.handOver(s, used, release); err != nil {
		_ = s.Close()
		release()
	}
}

func (g *Guest) handOver(s stream, used, release func()) error {
	l := newLink(s)
	l.breached = g.giveUp
	k, p, err := l.message()
	used()
	if err != nil {
		return err
	}
	var req request
	if k != kindRequest || json.Unmarshal(p, &req) != nil || req.Verb != "conn" {
		err := fmt.Errorf("%w: unasked stream", ErrProtocol)
		return l.breach(err)
	}
	if !isPeer(req.Addr) {
		return l.breach(fmt.Errorf("%w: a peer's address of %d bytes that is none", ErrProtocol, len(req.Addr)))
	}
	g.mu.Lock()
	in := g.accepts[req.Accept]
	g.mu.Unlock()
	if in == nil {
		return net.ErrClosed // the listener was closed meanwhile
	}
	if err := s.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	select {
	case in.conns <- incoming{l, req.Addr, release}:
		return nil
	case <-in.done:
		return net.ErrClosed
	case <-g.done:
		return net.ErrClosed
	}
}

// isPeer reports whether a peer address from a guest may be recorded: an address and port, or
// nothing.
func isPeer(addr string) bool {
	at, err := netip.ParseAddrPort(addr)
	return addr == "" || err == nil && at.Addr().Zone() == ""
}

// incoming is a connection that was not accepted yet.
type incoming struct {
	link    *link
	peer    string
	release func()
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

func (l *listener) Accept() (net.Conn, error) {
	select {
	case in := <-l.conns:
		c := newConn(in.link, l.addr.String(), in.peer)
		c.release = in.release
		return c, nil
	case <-l.done:
	case <-l.guest.done:
	}
	return nil, net.ErrClosed
}

func (l *listener) Close() (err error) {
	l.once.Do(func() {
		close(l.done)
		l.guest.forget(l.id)
		err = l.stop()
	})
	return err
}

// stopTimeout is how long a guest may take to stop listening.
const stopTimeout = 2 * time.Second

// stop ends the accept request and waits for the guest to finish it, so that the address is
// free again when Close returns.
func (l *listener) stop() error {
	err := l.control.stream.CloseWrite()
	_ = l.control.stream.SetReadDeadline(time.Now().Add(stopTimeout))
	_, _, _ = l.control.message() // only the end of the stream is expected
	return errors.Join(err, l.control.stream.Close())
}

func (l *listener) Addr() net.Addr { return l.addr }
