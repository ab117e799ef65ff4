// Package egress lets programs in a sandbox reach the outside hosts that the eval allows,
// and no others.
//
// A container has no route anywhere. For each name that it may reach it has an address of its
// own loopback, where connections are handed to the runner, and one for all of them,
// where an HTTP proxy answers (Places). The Proxy takes them in here, and finds out
// where each is meant to go: by what TLS or HTTP say in the clear, or by CONNECT. Where
// its policy allows that, it resolves the name once, looks at every address that came,
// dials one of those, and copies bytes. It does not open TLS, takes no notice of the
// environment's proxies, and follows no redirect.
//
// Nothing rests on the container: whoever took over its guest can open connections to these
// places, as any program there can. The package knows no engine, and not how places are
// listened at.
//
// What is sent to a host that is allowed is that host's to pass on; and what names a
// program asks for below a "*." is its choice.
package egress

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcpconfig"
)

// Options is what a [Proxy] is made of. Container and Record are required.
type Options struct {
	Container string // for events
	Allowed   []mcpconfig.Destination
	Limits    Limits
	// Record gets an event for each attempt, once it has ended; from several goroutines.
	Record func(evidence.Event)
	// Named is told the host of each attempt, allowed or not, before anything is done
	// about it, also of those that have no event of their own; nil for nobody. It is
	// called from several goroutines, and the name is any that the container chose.
	Named func(container, host string)
	// Resolve finds the addresses of a name; nil asks this machine's resolver.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	// Tap returns what gets a copy of the bytes that leave for a host without
	// encryption, before they do, one call for each connection; nil for nothing. An
	// error of it changes nothing.
	Tap func(container, host string) io.Writer
}

// Proxy passes on the connections of one container. It is made by [New] and ended by [Proxy.Close].
type Proxy struct {
	container string
	policy    policy
	resolve   func(context.Context, string) ([]netip.Addr, error)
	tap       func(container, host string) io.Writer
	named     func(container, host string)
	allowance *allowance
	ledger    *ledger
	web       *http.Server
	plain     *queue // what the web server takes
	ctx       context.Context
	cancel    context.CancelFunc
	work      sync.WaitGroup

	mu     sync.Mutex
	closed bool                   // guarded by mu
	open   map[io.Closer]struct{} // listeners and connections; guarded by mu
}

// New returns a proxy, which accepts nothing before [Proxy.Serve].
func New(o Options) (*Proxy, error) {
	if o.Container == "" || o.Record == nil {
		return nil, errors.New("egress: incomplete options")
	}
	if o.Resolve == nil {
		o.Resolve = lookup
	}
	if o.Tap == nil {
		o.Tap = func(string, string) io.Writer { return io.Discard }
	}
	if o.Named == nil {
		o.Named = func(string, string) {}
	}
	p := &Proxy{
		container: o.Container, policy: policy{o.Allowed, ofThisMachine}, resolve: o.Resolve, tap: o.Tap, named: o.Named,
		allowance: newAllowance(o.Limits, time.Now), ledger: &ledger{container: o.Container, record: o.Record},
		plain: newQueue(), open: map[io.Closer]struct{}{},
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.web = p.newWeb()
	p.work.Go(func() { _ = p.web.Serve(p.plain) })
	return p, nil
}

// lookup asks this machine's resolver for a name as it is, without its search domains.
func lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name+".")
}

// Serve takes in what connects to a place, until its listener ends or Close is called.
// It owns ln.
func (p *Proxy) Serve(ln net.Listener, place Place) {
	if !p.hold(ln) {
		return
	}
	go func() {
		defer p.forget(ln)
		defer func() { _ = ln.Close() }()
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			if in := newClient(p, conn, place); p.hold(in) {
				go in.attend()
			}
		}
	}()
}

// Close ends every connection and returns when all that was tried is told. It may be
// called twice.
func (p *Proxy) Close() {
	p.mu.Lock()
	was := p.closed
	p.closed = true
	open := slices.Collect(maps.Keys(p.open))
	p.mu.Unlock()
	p.cancel()
	for _, one := range open {
		_ = one.Close()
	}
	_ = p.web.Close()
	_ = p.plain.Close()
	p.work.Wait()
	if !was {
		p.ledger.close()
	}
}

// Underway returns events of what is still open, like those of attempts that have ended: open
// connections with what crossed them so far, and how many attempts are not reported one by one.
// It calls nothing of [Options].
func (p *Proxy) Underway() (events []evidence.Event) {
	p.mu.Lock()
	var open []*outbound
	for one := range p.open {
		if out, ok := one.(*outbound); ok {
			open = append(open, out)
		}
	}
	p.mu.Unlock()
	slices.SortFunc(open, func(a, b *outbound) int { return a.began.Compare(b.began) })
	for _, out := range open {
		events = append(events, p.ledger.event(out.soFar("it is still open")))
	}
	if rest, some := p.ledger.rest(); some {
		events = append(events, rest)
	}
	return events
}

// enter has Close wait until leave; after Close it is false.
func (p *Proxy) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.work.Add(1)
	}
	return !p.closed
}

func (p *Proxy) leave() { p.work.Done() }

// hold has Close close one more thing, and wait until it is let. After Close it closes
// it, and is false.
func (p *Proxy) hold(one io.Closer) bool {
	p.mu.Lock()
	held := !p.closed
	if held {
		p.work.Add(1)
		p.open[one] = struct{}{}
	}
	p.mu.Unlock()
	if !held {
		_ = one.Close()
	}
	return held
}

// forget ends hold for a thing that is closed. One that was not held makes no difference.
func (p *Proxy) forget(one io.Closer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, held := p.open[one]; held {
		delete(p.open, one)
		p.work.Done()
	}
}

// queue is a listener for connections that were taken in before.
type queue struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newQueue() *queue { return &queue{conns: make(chan net.Conn), done: make(chan struct{})} }

func (q *queue) Accept() (net.Conn, error) {
	select {
	case conn := <-q.conns:
		return conn, nil
	case <-q.done:
		return nil, net.ErrClosed
	}
}

// put hands a connection over; after Close it is closed.
func (q *queue) put(conn net.Conn) {
	select {
	case q.conns <- conn:
	case <-q.done:
		_ = conn.Close()
	}
}

func (q *queue) Close() error {
	q.once.Do(func() { close(q.done) })
	return nil
}

func (q *queue) Addr() net.Addr { return net.TCPAddrFromAddrPort(proxyAt()) }
