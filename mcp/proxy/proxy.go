package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/mcp/transport"
)

// Recorder records the traffic of the proxy; [evidence.Recorder] implements it. Frame must
// not keep or change f.Raw.
type Recorder interface {
	Frame(f evidence.Frame) int64
	Event(e evidence.Event)
}

// Watcher is an optional interface of a [Recorder] that observes tool calls while they are
// in progress. It must return at once, since the agent waits.
type Watcher interface {
	// Called is called when the agent calls a tool. The returned function is called when
	// the agent has received the answer or has disconnected.
	Called(server, tool string) (over func())
}

// Server is one MCP server behind the proxy.
type Server struct {
	transport.Server
	Host   string      // host name; default Name
	Tools  []string    // tools visible to the agent; nil for all
	Inject []Injection // added to results sent to the agent
	// Share limits the evidence of unsolicited messages from the server; nil for no limit.
	Share *bounded.Budget
}

// hostKey returns the server's host name in lower case.
func (s Server) hostKey() string { return strings.ToLower(cmp.Or(s.Host, s.Name)) }

// errClosed is returned for requests to a closed proxy.
var errClosed = errors.New("the proxy is closed")

// Proxy serves the agent of one trial on any number of listeners.
type Proxy struct {
	limits  Limits
	rec     Recorder
	servers map[string]*server
	memory  *bounded.Budget
	replay  *bounded.Budget

	calls     atomic.Int64           // tool calls so far
	overspent atomic.Pointer[string] // the first limit that the agent exceeded

	ctx     context.Context // of all processes
	cancel  context.CancelFunc
	serving context.Context // ends when Close is called
	shut    context.CancelFunc
	drained chan struct{} // closed when, after Close, all processes have ended
	done    chan struct{} // closed when all handlers have returned too

	mu       sync.Mutex
	closed   bool                       // guarded by mu
	sessions map[*stdioSession]struct{} // sessions that have a process; guarded by mu
	handlers sync.WaitGroup             // Add guarded by mu
	once     sync.Once
}

// New returns a proxy for servers with different host names. Servers are started on demand.
// The caller must call [Proxy.Close] to end their processes.
func New(rec Recorder, limits Limits, servers ...Server) *Proxy {
	p := &Proxy{
		limits:   limits.withDefaults(),
		rec:      rec,
		servers:  make(map[string]*server, len(servers)),
		drained:  make(chan struct{}),
		done:     make(chan struct{}),
		sessions: map[*stdioSession]struct{}{},
	}
	p.memory = bounded.NewBudget(p.limits.Memory)
	p.replay = bounded.NewBudget(p.limits.Replay)
	for _, s := range servers {
		s.Server = s.Server.WithDefaults()
		p.servers[s.hostKey()] = newServer(p, s)
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.serving, p.shut = context.WithCancel(p.ctx)
	return p
}

// begin reports whether the proxy is open. If so, the caller must call p.handlers.Done when
// it is finished.
func (p *Proxy) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.handlers.Add(1)
	return true
}

// adopt registers s to be ended by Close. If the proxy is already closed it stops s at
// once.
func (p *Proxy) adopt(s *stdioSession) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sessions[s] = struct{}{}
	if p.closed {
		s.lines.Stop()
	}
}

func (p *Proxy) forget(s *stdioSession) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sessions, s)
}

// Close ends every process: it closes stdin, then sends SIGTERM and then SIGKILL, each
// after [transport.Server].Grace. Requests in flight are answered with an error. Close returns when
// all processes have ended and been recorded; if ctx ends first, it kills the remaining
// ones and returns ctx's error. It may be called more than once.
func (p *Proxy) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	for s := range p.sessions {
		s.lines.Stop()
	}
	p.mu.Unlock()
	p.shut()
	p.once.Do(func() { go p.finish() })

	defer p.cancel()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.sessions {
		s.lines.Kill()
	}
	return fmt.Errorf("proxy: close: %w", context.Cause(ctx))
}

// finish waits for all processes and handlers. Handlers that are still running may start a
// process after the first round.
func (p *Proxy) finish() {
	defer close(p.done)
	p.drain()
	close(p.drained)
	p.handlers.Wait()
	p.drain()
}

func (p *Proxy) drain() {
	for s := p.anySession(); s != nil; s = p.anySession() {
		<-s.lines.Gone()
		p.forget(s)
	}
}

func (p *Proxy) anySession() *stdioSession {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.sessions {
		return s
	}
	return nil
}

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 32 << 10
	shutdownGrace = 2 * time.Second
)

// Serve serves h on l, with limits on headers, connections and idle time, until ctx ends or
// the proxy is closed, and then returns nil. It closes l. If the listener fails, Serve
// returns its error. h is the proxy's own handler or one that wraps it.
func (p *Proxy) Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(io.Discard, "", 0), // a peer can flood any log
	}
	if !defence.HeaderTimeout {
		srv.ReadHeaderTimeout = 100 * headerTimeout
	}
	conns := p.limits.Conns
	if !defence.FewConnections {
		conns *= 16
	}
	failed := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-ctx.Done():
		case <-p.drained:
		case <-failed:
		}
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
		defer cancel()
		_ = srv.Shutdown(grace)
		_ = srv.Close()
	}()
	err := srv.Serve(netutil.LimitListener(l, conns))
	close(failed)
	<-stopped
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Overspent returns which limit the agent exceeded, or "".
func (p *Proxy) Overspent() string {
	if why := p.overspent.Load(); why != nil {
		return *why
	}
	return ""
}
