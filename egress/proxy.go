// Package egress lets programs in a sandbox reach the outside hosts that the eval allows,
// and no others.
//
// A container has no route anywhere. For each name that it may reach, its loopback has an
// address whose connections are handed to the runner, and one more address has an HTTP proxy for
// all names ([Places]). [Proxy] accepts the connections and learns where each is to go: from TLS
// or HTTP as far as they are in the clear, or from CONNECT. If the policy allows the host, the
// Proxy resolves its name once, checks every address, dials one of them and copies bytes. It does
// not open TLS, ignores the environment's proxies, and follows no redirect.
//
// Nothing depends on the container: whoever took over its guest can open connections to these
// places, and so can any program there. The package knows no engine, and not how a container
// listens at its places.
//
// An allowed host may pass on whatever is sent to it, and a program chooses the names that it
// asks for below a "*.".
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
	// Record gets an event for each attempt once that has ended. It is called from several
	// goroutines.
	Record func(evidence.Event)
	// Named gets the host of each attempt before it is made, allowed or not, also of attempts
	// that have no event of their own. It may be nil. It is called from several goroutines, and
	// the container chose the name.
	Named func(container, host string)
	// Resolve finds the addresses of a name; nil asks this machine's resolver.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	// Tap returns a writer that gets the bytes which a connection sends to a host without
	// encryption, before they leave. Its errors are ignored. Tap may be nil.
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
		open: map[io.Closer]struct{}{},
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.web = p.newWeb()
	return p, nil
}

// lookup asks this machine's resolver for a name as it is, without its search domains.
func lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name+".")
}

// Serve accepts connections to a place until its listener ends or Close is called. It owns ln.
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

// Close ends every connection and returns when all attempts are recorded. It may be called twice.
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

// enter makes Close wait until leave. It returns false after Close.
func (p *Proxy) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.work.Add(1)
	}
	return !p.closed
}

func (p *Proxy) leave() { p.work.Done() }

// hold makes Close close one more thing and wait until forget. After Close it closes it at once
// and returns false.
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

// forget ends hold for a thing that is closed, if it was held.
func (p *Proxy) forget(one io.Closer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, held := p.open[one]; held {
		delete(p.open, one)
		p.work.Done()
	}
}
