// Package egress connects programs in a sandbox to the outside hosts that the eval allows,
// and to no others.
//
// A container has no route to any network. Its loopback interface has one address for each
// name that it may reach, and one for an HTTP proxy ([Places]); connections to these
// addresses are handed to the runner. [Proxy] accepts them and determines the destination
// of each from the unencrypted part of TLS, from HTTP, or from CONNECT. If the policy
// allows the host, Proxy resolves its name once, checks every address, dials one of them
// and copies bytes. It does not decrypt TLS, ignores proxy settings in the environment, and
// does not follow redirects.
//
// No check depends on the container: a program that takes over its guest can only open
// connections to these places, as any program there can. The package knows nothing about
// engines, nor how a container listens at its places.
//
// An allowed host may forward whatever is sent to it, and programs choose the names that
// they request below a "*." entry.
package egress

import (
	"context"
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

// Options configures a [Proxy]. Container and Record are required.
type Options struct {
	Container string // for events
	Allowed   []mcpconfig.Destination
	Limits    Limits
	// Record is called with an event for each attempt once it has ended. It is called from
	// several goroutines.
	Record func(evidence.Event)
	// Named is called with the host of each attempt before it is made, whether allowed or
	// not, including attempts that are not recorded individually. The container chooses the
	// name. Named may be nil and is called from several goroutines.
	Named func(container, host string)
	// Resolve returns the addresses of a name; nil means this machine's resolver.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	// Tap returns a writer that receives the unencrypted bytes sent to a host before they
	// are sent. Its errors are ignored. Tap may be nil.
	Tap func(container, host string) io.Writer
}

// Proxy forwards the connections of one container. It is created with [New] and ended with
// [Proxy.Close].
type Proxy struct {
	container string
	policy    policy
	resolve   func(context.Context, string) ([]netip.Addr, error)
	tap       func(container, host string) io.Writer
	named     func(container, host string)
	allowance *allowance
	ledger    *ledger
	web       *http.Server
	ctx       context.Context
	cancel    context.CancelFunc
	work      sync.WaitGroup

	mu     sync.Mutex
	closed bool                   // guarded by mu
	open   map[io.Closer]struct{} // listeners and connections; guarded by mu
}

// New returns a proxy. It accepts connections after [Proxy.Serve].
func New(o Options) *Proxy {
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
		open: map[io.Closer]struct{}{},
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.web = p.newWeb()
	return p
}

// lookup resolves an absolute name with this machine's resolver, without search domains.
func lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name+".")
}

// Serve accepts connections to a place until its listener fails or Close is called. It
// takes ownership of ln.
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

// Close closes every connection and returns when all attempts are recorded. It may be
// called more than once.
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
	p.work.Wait()
	if !was {
		p.ledger.close()
	}
}

// Underway returns events for open connections, with their traffic so far, and for the
// attempts not recorded individually. It does not call functions of [Options].
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

// enter makes Close wait for leave. It returns false after Close.
func (p *Proxy) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.work.Add(1)
	}
	return !p.closed
}

func (p *Proxy) leave() { p.work.Done() }

// hold registers a connection or listener, which Close closes before it waits for forget. After
// Close, hold closes it at once and returns false.
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

// forget unregisters a closed connection or listener, if it was registered.
func (p *Proxy) forget(one io.Closer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, held := p.open[one]; held {
		delete(p.open, one)
		p.work.Done()
	}
}
