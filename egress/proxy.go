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

// Proxy carries the connections of one container. It is made by New and ended by Close.
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

// New makes a carrier, which carries nothing before Serve.
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
	c := &Proxy{
		container: o.Container, policy: policy{o.Allowed, ofThisMachine}, resolve: o.Resolve, tap: o.Tap, named: o.Named,
		allowance: newAllowance(o.Limits, time.Now), ledger: &ledger{container: o.Container, record: o.Record},
		plain: newQueue(), open: map[io.Closer]struct{}{},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.web = c.newWeb()
	c.work.Go(func() { _ = c.web.Serve(c.plain) })
	return c, nil
}

// lookup asks this machine's resolver for a name as it is, without its search domains.
func lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name+".")
}

// Serve takes in what connects to a place, until its listener ends or Close is called.
// It owns ln.
func (c *Proxy) Serve(ln net.Listener, place Place) {
	if !c.hold(ln) {
		return
	}
	go func() {
		defer c.forget(ln)
		defer func() { _ = ln.Close() }()
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			if in := newClient(c, conn, place); c.hold(in) {
				go in.attend()
			}
		}
	}()
}

// Close ends every connection and returns when all that was tried is told. It may be
// called twice.
func (c *Proxy) Close() {
	c.mu.Lock()
	was := c.closed
	c.closed = true
	open := slices.Collect(maps.Keys(c.open))
	c.mu.Unlock()
	c.cancel()
	for _, one := range open {
		_ = one.Close()
	}
	_ = c.web.Close()
	_ = c.plain.Close()
	c.work.Wait()
	if !was {
		c.ledger.close()
	}
}

// enter has Close wait until leave; after Close it is false.
func (c *Proxy) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.work.Add(1)
	}
	return !c.closed
}

func (c *Proxy) leave() { c.work.Done() }

// hold has Close close one more thing, and wait until it is let. After Close it closes
// it, and is false.
func (c *Proxy) hold(one io.Closer) bool {
	c.mu.Lock()
	held := !c.closed
	if held {
		c.work.Add(1)
		c.open[one] = struct{}{}
	}
	c.mu.Unlock()
	if !held {
		_ = one.Close()
	}
	return held
}

// forget ends hold for a thing that is closed. One that was not held makes no difference.
func (c *Proxy) forget(one io.Closer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, held := c.open[one]; held {
		delete(c.open, one)
		c.work.Done()
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
