package egress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/mcpconfig"
)

const (
	// reachTimeout limits resolving a name and connecting to any of its addresses.
	reachTimeout = 15 * time.Second
	// dialTimeout limits connecting to one address.
	dialTimeout = 5 * time.Second
	// maxAddresses is the number of addresses of a name that are tried in turn.
	maxAddresses = 4
)

// errRefused means that a host must not be reached. That has already been recorded.
var errRefused = errors.New("egress refused")

// asked is the requested destination of a connection.
type asked struct {
	name string // in canonical form; arbitrary if it is refused
	port int
	by   string
}

// refuse reports and records an attempt that is refused before reach.
func (p *Proxy) refuse(a asked, why string) {
	p.named(p.container, a.name)
	p.recordRefused(a, why)
}

func (p *Proxy) recordRefused(a asked, why string) {
	p.ledger.add(evidence.Egress{Name: a.name, Port: a.port, By: a.by, Why: why})
}

// reach connects to a requested destination. All outgoing connections are authorized and
// dialed here. Its error wraps errRefused or is that of dialing; both have been recorded.
func (p *Proxy) reach(ctx context.Context, a asked) (*outbound, error) {
	began := time.Now()
	p.named(p.container, a.name)
	refused := func(why string) (*outbound, error) {
		p.recordRefused(a, why)
		return nil, fmt.Errorf("%w: %s", errRefused, why)
	}
	to, ok := p.policy.find(a.name, a.port)
	if defence.EgressPolicy && !ok {
		return refused("the eval does not allow it")
	}
	if !p.enter() {
		return refused("the trial is over")
	}
	defer p.leave()
	if why := p.allowance.begin(); why != "" {
		return refused(why)
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	addrs, why := p.addresses(ctx, to, a)
	if why != "" {
		p.allowance.end()
		return refused(why)
	}
	conn, at, err := dial(ctx, addrs)
	reported := evidence.Egress{Name: a.name, Port: a.port, By: a.by, Allowed: true, Address: at.String()}
	if err != nil {
		p.allowance.end()
		reported.Why, reported.MS = err.Error(), time.Since(began).Milliseconds()
		p.ledger.add(reported)
		return nil, err
	}
	out := &outbound{Conn: conn, proxy: p, began: began, reported: reported, clear: io.Discard}
	if !p.hold(out) {
		return nil, fmt.Errorf("%w: the trial is over", errRefused)
	}
	return out, nil
}

// addresses returns the addresses of a name, or why it is refused. One refused address
// refuses the name, since any of them might be dialed.
func (p *Proxy) addresses(ctx context.Context, to mcpconfig.Destination, a asked) (at []netip.AddrPort, why string) {
	if to.Address.IsValid() {
		return []netip.AddrPort{netip.AddrPortFrom(to.Address, uint16(cmp.Or(to.Port, a.port)))}, ""
	}
	var addrs []netip.Addr
	if addr, err := netip.ParseAddr(a.name); err == nil {
		addrs = []netip.Addr{addr}
	} else if addrs, err = p.resolve(ctx, a.name); err != nil || len(addrs) == 0 {
		return nil, "its name does not resolve"
	}
	for _, addr := range addrs {
		addr = addr.Unmap()
		if why := p.policy.refuses(addr, a.port); defence.EgressPolicy && why != "" {
			return nil, why
		}
		at = append(at, netip.AddrPortFrom(addr, uint16(a.port)))
	}
	return at[:min(len(at), maxAddresses)], ""
}

// dial connects to the first address that accepts. If none does it returns the last address
// and its error.
func dial(ctx context.Context, addrs []netip.AddrPort) (conn net.Conn, at netip.AddrPort, err error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	for _, at = range addrs {
		if conn, err = dialer.DialContext(ctx, "tcp", at.String()); err == nil {
			return conn, at, nil
		}
	}
	return nil, at, err
}

// outbound is a connection to a host. It counts the bytes transferred and records them when
// it is closed.
type outbound struct {
	net.Conn
	proxy   *Proxy
	began   time.Time
	out, in atomic.Int64
	once    sync.Once

	mu       sync.Mutex
	reported evidence.Egress // guarded by mu
	clear    io.Writer       // receives a copy of what is sent; guarded by mu
}

// inTheClear copies what is sent from now on to the tap.
func (o *outbound) inTheClear() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clear = o.proxy.tap(o.proxy.container, o.reported.Name)
}

// because sets why the connection is about to end. Only the first reason is kept.
func (o *outbound) because(why string, allowed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.reported.Why == "" {
		o.reported.Why, o.reported.Allowed = why, allowed
	}
}

func (o *outbound) Read(p []byte) (int, error) {
	n, err := o.Conn.Read(p)
	o.in.Add(int64(n))
	if broke := o.spend(n); broke != nil {
		return 0, broke
	}
	return n, err
}

func (o *outbound) Write(p []byte) (int, error) {
	if err := o.spend(len(p)); err != nil {
		return 0, err
	}
	o.mu.Lock()
	clear := o.clear
	o.mu.Unlock()
	_, _ = clear.Write(p)
	n, err := o.Conn.Write(p)
	o.out.Add(int64(n))
	return n, err
}

func (o *outbound) spend(n int) error {
	why := o.proxy.allowance.spend(n)
	if why == "" {
		return nil
	}
	o.because(why, true)
	o.Abort()
	return fmt.Errorf("%w: %s", errRefused, why)
}

// CloseWrite implements [Stream].
func (o *outbound) CloseWrite() error { return o.Conn.(*net.TCPConn).CloseWrite() }

// Abort implements [Stream].
func (o *outbound) Abort() {
	_ = o.Conn.(*net.TCPConn).SetLinger(0)
	_ = o.Close()
}

// Close ends the connection and records it.
func (o *outbound) Close() error {
	err := o.Conn.Close()
	o.once.Do(func() {
		o.proxy.allowance.end()
		o.proxy.ledger.add(o.soFar(""))
		o.proxy.forget(o)
	})
	return err
}

// soFar returns the record of a connection up to now. why is used if no reason was set.
func (o *outbound) soFar(why string) evidence.Egress {
	o.mu.Lock()
	reported := o.reported
	o.mu.Unlock()
	if reported.Why == "" {
		reported.Why = why
	}
	reported.Out, reported.In, reported.MS = o.out.Load(), o.in.Load(), time.Since(o.began).Milliseconds()
	return reported
}
