package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/sandbox/process"
)

// Recorder takes what the proxy sees. [evidence.Recorder] is one. Frame does not
// keep f.Raw and does not change it.
type Recorder interface {
	Frame(f evidence.Frame) int64
	Event(e evidence.Event)
}

// Server is one MCP server behind the proxy.
type Server struct {
	Name     string      // what the agent calls it
	Host     string      // its host name there; default Name
	Launch   Launcher    // starts a process of its program, which speaks on stdio
	Upstream *Upstream   // where it speaks HTTP, in place of Launch
	Stderr   io.Writer   // takes the stderr of all its processes; nil discards it
	Tools    []string    // the tools that the agent sees; nil for all
	Inject   []Injection // what is added to results on their way to the agent

	// Start is how long one Launch, and the whole of a [Probe], may take;
	// default 30 s. Timeout is how long one request may take; default 300 s.
	Start, Timeout time.Duration
	// Message is how many bytes one message may have, either way; default that of
	// Limits.
	Message int64
	// Frames and Traffic are how many messages, and bytes of them, may cross in a
	// trial, each way; default those of Limits.
	Frames, Traffic int64
	// Share is what recording the messages that the server sends unasked may take; nil for
	// no limit.
	Share *bounded.Budget
}

func (s Server) withDefaults(l Limits) Server {
	s.Message = cmp.Or(s.Message, l.Message)
	s.Frames, s.Traffic = cmp.Or(s.Frames, l.Frames), cmp.Or(s.Traffic, l.Traffic)
	if s.Start == 0 {
		s.Start = 30 * time.Second
	}
	if s.Timeout == 0 {
		s.Timeout = 300 * time.Second
	}
	return s
}

func (s Server) validate() error {
	switch {
	case s.Name == "" || strings.ContainsAny(s.Name, "/:@ \t\r\n"):
		return fmt.Errorf("proxy: %q is no name for a server", s.Name)
	case (s.Launch == nil) == (s.Upstream == nil):
		return fmt.Errorf("proxy: server %q needs a launcher or an upstream", s.Name)
	case s.Start < 0 || s.Timeout < 0 || s.Message < 0 || s.Frames < 0 || s.Traffic < 0:
		return fmt.Errorf("proxy: server %q has a negative limit", s.Name)
	case s.Upstream != nil:
		if err := s.Upstream.validate(); err != nil {
			return fmt.Errorf("proxy: server %q: %w", s.Name, err)
		}
	}
	return nil
}

// passes says whether requests are passed on as they are.
func (s Server) passes() bool { return s.Upstream != nil && !s.Upstream.Events }

// launcher starts what a link talks to: a process, or a session over HTTP+SSE.
func (s Server) launcher(message int64, memory *bounded.Budget) Launcher {
	if s.Upstream == nil {
		return s.Launch
	}
	return eventsLauncher(s.Upstream, message, memory, s.Timeout)
}

// hostKey is the server's name in a Host header, in lower case.
func (s Server) hostKey() string { return strings.ToLower(cmp.Or(s.Host, s.Name)) }

// ErrClosed is returned for what a closed proxy no longer does.
var ErrClosed = errors.New("the proxy is closed")

// Proxy serves the agent of one trial, on any number of listeners.
type Proxy struct {
	limits  Limits
	rec     Recorder
	servers map[string]*server
	memory  *bounded.Budget
	replay  *bounded.Budget

	calls     atomic.Int64           // requests to call a tool
	overspent atomic.Pointer[string] // how the agent came to want more than it may

	ctx     context.Context // of every process
	cancel  context.CancelFunc
	serving context.Context // ends when Close begins
	shut    context.CancelFunc
	drained chan struct{} // closed when every process has ended after Close
	done    chan struct{} // closed when every handler has too

	mu       sync.Mutex
	closed   bool               // guarded by mu
	links    map[*link]struct{} // with a process; guarded by mu
	handlers sync.WaitGroup     // Add guarded by mu
	once     sync.Once
}

// New returns a proxy for servers. Nothing is started before the agent asks.
// Its processes end with [Proxy.Close], which must be called.
func New(rec Recorder, limits Limits, servers ...Server) (*Proxy, error) {
	if rec == nil {
		return nil, errors.New("proxy: no recorder")
	}
	if !limits.valid() {
		return nil, errors.New("proxy: a limit is negative")
	}
	p := &Proxy{
		limits:  limits.withDefaults(),
		rec:     rec,
		servers: make(map[string]*server, len(servers)),
		drained: make(chan struct{}),
		done:    make(chan struct{}),
		links:   map[*link]struct{}{},
	}
	p.memory = bounded.NewBudget(p.limits.Memory)
	p.replay = bounded.NewBudget(p.limits.Replay)
	for _, s := range servers {
		if err := s.validate(); err != nil {
			return nil, err
		}
		key := s.hostKey()
		if p.servers[key] != nil {
			return nil, fmt.Errorf("proxy: two servers are called %q", s.Name)
		}
		var err error
		if p.servers[key], err = newServer(p, s.withDefaults(p.limits)); err != nil {
			return nil, err
		}
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.serving, p.shut = context.WithCancel(p.ctx)
	return p, nil
}

// begin says whether the proxy still takes work. Where it does, the caller ends
// it with p.handlers.Done.
func (p *Proxy) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.handlers.Add(1)
	return true
}

// adopt has Close see l off. A link that comes too late is stopped at once.
func (p *Proxy) adopt(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links[l] = struct{}{}
	if p.closed {
		l.child.stop()
	}
}

func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// Close ends every process: its stdin is closed, then it is sent SIGTERM, then
// SIGKILL, each after [Limits.Grace]. Requests still in flight are answered with
// an error. It returns when all has ended and been recorded, or with ctx's error,
// having sent SIGKILL to what was left. Closing twice is allowed.
func (p *Proxy) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	for l := range p.links {
		l.child.stop()
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
	for l := range p.links {
		_ = l.child.proc.Signal(process.Kill)
	}
	return fmt.Errorf("proxy: close: %w", context.Cause(ctx))
}

// finish waits until no process and no handler is left. A handler may adopt a
// process when the first round is over, but none begins any more.
func (p *Proxy) finish() {
	defer close(p.done)
	p.drain()
	close(p.drained)
	p.handlers.Wait()
	p.drain()
}

func (p *Proxy) drain() {
	for l := p.anyLink(); l != nil; l = p.anyLink() {
		<-l.child.gone
		p.forget(l)
	}
}

func (p *Proxy) anyLink() *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		return l
	}
	return nil
}
