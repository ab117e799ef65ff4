package proxy

import (
	"cmp"
	"context"
	"encoding/json"
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
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/mcp/transport"
)

// Recorder records the traffic of the proxy; [evidence.Recorder] implements it. Frame must
// not keep or change f.Raw. It returns 0 if it has no room for f.
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
	// Fault returns the fault for the agent's next call, given its parameters, or nil. May be nil.
	Fault func(params json.RawMessage) *cassette.Fault
	// Keep keeps the newest process of a server on stdio after [Proxy.Release], for the runner.
	Keep bool
	// OwnLaunch starts the processes of the runner's own sessions; default Launch.
	OwnLaunch transport.Launcher
}

// hostKey returns the server's host name in lower case.
func (s Server) hostKey() string { return strings.ToLower(cmp.Or(s.Host, s.Name)) }

// errClosed is returned for requests to a closed proxy.
var errClosed = errors.New("the proxy is closed")

// Proxy serves the agent of one trial on any number of listeners.
type Proxy struct {
	limits  Limits
	rec     Recorder
	servers map[string]*server // by host name
	own     map[string]*server // for the runner's own sessions, by name
	memory  *bounded.Budget
	replay  *bounded.Budget

	calls     atomic.Int64           // tool calls so far
	overspent atomic.Pointer[string] // the first limit that the agent exceeded

	ctx    context.Context // of all processes
	cancel context.CancelFunc
	agent  part
	runner part
}

// part is the part of the proxy that serves the agent, or the one that serves the runner.
type part struct {
	serving context.Context // ends when the part is closed
	shut    context.CancelFunc
	drained chan struct{} // closed when the part is closed and all processes have ended
	done    chan struct{} // closed when all handlers have returned too
	once    sync.Once

	mu       sync.Mutex
	closed   bool                       // guarded by mu
	sessions map[*stdioSession]struct{} // sessions that have a process; guarded by mu
	handlers sync.WaitGroup             // Add guarded by mu
}

func (t *part) open(ctx context.Context) {
	t.serving, t.shut = context.WithCancel(ctx)
	t.drained, t.done = make(chan struct{}), make(chan struct{})
	t.sessions = map[*stdioSession]struct{}{}
}

// New returns a proxy for servers with different host names. Servers are started on demand.
// The caller must call [Proxy.Close] to end their processes.
func New(rec Recorder, limits Limits, servers ...Server) *Proxy {
	p := &Proxy{
		limits:  limits.withDefaults(),
		rec:     rec,
		servers: make(map[string]*server, len(servers)),
		own:     make(map[string]*server, len(servers)),
	}
	p.memory = bounded.NewBudget(p.limits.Memory)
	p.replay = bounded.NewBudget(p.limits.Replay)
	for _, s := range servers {
		s.Server = s.Server.WithDefaults()
		p.servers[s.hostKey()] = newServer(p, s, &p.agent)
		own := Server{Server: s.Server, Host: s.Host}
		if s.OwnLaunch != nil {
			own.Launch = s.OwnLaunch
		}
		p.own[s.Name] = newServer(p, own, &p.runner)
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.agent.open(p.ctx)
	p.runner.open(p.ctx)
	return p
}

// begin reports whether the part is open. If so, the caller must call t.handlers.Done when it is
// finished.
func (t *part) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.handlers.Add(1)
	return true
}

// adopt registers s to be ended with the part. If the part is already closed it stops s at once.
func (t *part) adopt(s *stdioSession) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sessions[s] = struct{}{}
	if t.closed {
		s.lines.Stop()
	}
}

func (t *part) forget(s *stdioSession) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.sessions, s)
}

// Release ends the part of the proxy that serves the agent: it answers requests in flight with an
// error, and ends every process except the newest of each server with Keep. It returns when all
// others have ended and been recorded. If ctx ends first, Release kills them and returns ctx's
// error.
func (p *Proxy) Release(ctx context.Context) error {
	for _, s := range p.servers {
		if b, ok := s.handler.(*bridge); ok {
			b.keepNewest()
		}
	}
	return p.agent.close(ctx)
}

// Close calls [Proxy.Release] and ends all other processes: it closes stdin, then sends SIGTERM and
// then SIGKILL, each after [transport.Server].Grace. It may be called more than once.
func (p *Proxy) Close(ctx context.Context) error {
	defer p.cancel()
	return errors.Join(p.Release(ctx), p.runner.close(ctx))
}

// close ends every process and request of the part.
func (t *part) close(ctx context.Context) error {
	t.mu.Lock()
	t.closed = true
	for s := range t.sessions {
		s.lines.Stop()
	}
	t.mu.Unlock()
	t.shut()
	t.once.Do(func() { go t.finish() })

	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.sessions {
		s.lines.Kill()
	}
	return fmt.Errorf("proxy: close: %w", context.Cause(ctx))
}

// finish waits for all processes and handlers. Handlers that are still running may start a
// process after the first round.
func (t *part) finish() {
	defer close(t.done)
	t.drain()
	close(t.drained)
	t.handlers.Wait()
	t.drain()
}

func (t *part) drain() {
	for s := t.anySession(); s != nil; s = t.anySession() {
		<-s.lines.Gone()
		t.forget(s)
	}
}

func (t *part) anySession() *stdioSession {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.sessions {
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
		case <-p.agent.drained:
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
