package proxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/transport"
)

var (
	errBusy    = errors.New("too many requests at once")
	errInUse   = errors.New("another request with this id is not answered yet")
	errTimeout = errors.New("the server did not take the message in time")
)

// link is a conversation with one process: a session, or all requests that have
// none.
type link struct {
	server  *server
	conn    string
	session string // empty where shared
	lines   *transport.Lines
	own     *agentStream // messages for the agent that belong to no request
	journal *journal     // nil where shared

	mu      sync.Mutex
	version string               // negotiated by initialize; guarded by mu
	pending map[string]*exchange // by id key; guarded by mu
	order   []*exchange          // in flight, oldest first; guarded by mu
	waiting int                  // requests that wait for their ids; guarded by mu
	lateIDs lateIDs              // ids whose answer may still come; guarded by mu
	late    int                  // requests that were given up and are not answered yet; guarded by mu
	changed chan struct{}        // closed and replaced when an id becomes free; guarded by mu
	over    bool                 // no answer will come any more; guarded by mu

	streams    map[uint64]*exchange // in flight, by the number of their stream; guarded by mu
	lastStream uint64               // guarded by mu
}

// startLink launches a process and the conversation with it.
func startLink(s *server, conn, session string) (*link, error) {
	p := s.proxy
	l := &link{
		server:  s,
		conn:    conn,
		session: session,
		own:     &agentStream{queue: newQueue(p.limits.Queue, p.memory), stream: ownStream},
		streams: map[uint64]*exchange{},
		pending: map[string]*exchange{},
		lateIDs: lateIDs{memory: p.memory},
		changed: make(chan struct{}),
	}
	if session != "" {
		l.journal = &journal{max: p.limits.Queue, memory: p.replay}
		l.own.journal = l.journal
	}
	started := make(chan struct{}) // before it lines is not set
	lines, err := transport.Open(p.ctx, s.Server.Server, s.Launcher(p.memory), transport.Handler{
		Memory: p.memory,
		Stderr: transport.NewStderr(s.stderr),
		Line:   func(line []byte) error { <-started; return l.receive(line) },
		Ended:  func(e transport.Ending) { <-started; l.end(e) },
	})
	if err != nil {
		return nil, err
	}
	l.lines = lines
	p.adopt(l)
	close(started)
	return l, nil
}

func (l *link) isShared() bool { return l.session == "" }

func (l *link) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// tell records a POST that nothing is answered to, and writes it to the server.
func (l *link) tell(c call) error {
	l.mu.Lock()
	l.recordClient(c)
	l.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(c.ctx), l.server.Timeout, errTimeout)
	defer cancel()
	err := l.lines.Send(ctx, c.raw)
	if err != nil {
		l.server.events.Add("undelivered", fmt.Sprintf("to the server: %v", err), map[string]any{"conn": l.conn})
	}
	return err
}

// ask writes the requests of ex to the server. Where there is no memory for that it
// answers them itself; where it fails otherwise, the process's end or the exchange's
// time limit does.
func (l *link) ask(ex *exchange, c call) {
	ctx, cancel := context.WithCancel(ex.ctx)
	defer cancel()
	if l.isShared() { // a closed connection cancels
		defer context.AfterFunc(c.ctx, cancel)()
	}
	if err := l.lines.Send(ctx, c.raw); errors.Is(err, transport.ErrNoMemory) {
		l.refuse(ex, err)
	}
}

// refuse answers what ex still waits for: it did not reach the server.
func (l *link) refuse(ex *exchange, why error) {
	l.server.events.Add("limit", "a request was "+why.Error(), map[string]any{"conn": l.conn})
	l.mu.Lock()
	defer l.mu.Unlock()
	given := l.giveUp(ex)
	for i, id := range given {
		l.answer(ex, id, evidence.SyntheticTransport, codeTransport, "the message is "+why.Error(), i == len(given)-1)
	}
}

// reasonLeft is why a request is cancelled or abandoned.
const reasonLeft = "the client closed the response stream"

// abandon is called when the agent has closed the connection of ex. Up to
// 2025-11-25 that cancels nothing, and the agent may come back for the rest. From
// 2026-07-28 it cancels the requests, which on stdio is a message of its own.
func (l *link) abandon(ex *exchange) {
	l.mu.Lock()
	l.recordLeft(ex)
	if !l.detach(ex) {
		ex.queue.discard() // nothing is pushed to a closed queue: routing passes it by
	}
	if !l.isShared() {
		l.mu.Unlock()
		return
	}
	given := l.giveUp(ex)
	l.mu.Unlock()
	for _, id := range given {
		l.server.events.Add("cancelled", reasonLeft, map[string]any{"conn": l.conn, "id": string(id.Raw)})
	}
	l.cancelOnStdio(given, reasonLeft)
}

// expire answers what ex still waits for with a timeout. To a client of a
// revision without sessions the request is over then, so the server is told.
func (l *link) expire(ex *exchange) {
	reason := fmt.Sprintf("server %q did not answer within %v", l.server.Name, l.server.Timeout)
	l.mu.Lock()
	given := l.giveUp(ex)
	for i, id := range given {
		l.answer(ex, id, evidence.SyntheticTimeout, codeTimeout, reason, i == len(given)-1)
	}
	if l.isShared() {
		l.recordCancel(given, evidence.SyntheticTimeout, reason)
	}
	l.mu.Unlock()
	if l.isShared() {
		l.cancelOnStdio(given, reason)
	}
}

// recordLeft records, once, that the agent has left what ex still waits for.
func (l *link) recordLeft(ex *exchange) {
	if ex.abandoned {
		return
	}
	ex.abandoned = true
	why := evidence.SyntheticAbandoned
	if l.isShared() {
		why = evidence.SyntheticCancelled
	}
	l.recordCancel(slices.Collect(maps.Values(ex.open)), why, reasonLeft)
}

// recordCancel records cancellations, which cancelOnStdio writes where there is something to
// cancel. They are the proxy's own, and their frames say so.
func (l *link) recordCancel(given []jsonrpc.ID, why evidence.Synthetic, reason string) {
	for _, id := range given {
		l.record(evidence.Frame{Dir: evidence.ToServer, Raw: cancellation(id, reason), Synthetic: why})
	}
}

// cancelOnStdio tells the server that answers are no longer wanted.
func (l *link) cancelOnStdio(given []jsonrpc.ID, reason string) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), l.server.Grace, errTimeout)
	defer cancel()
	for _, id := range given {
		_ = l.lines.Send(ctx, cancellation(id, reason))
	}
}

// end is called once, when the process has ended and all it wrote was routed.
func (l *link) end(e transport.Ending) {
	text := fmt.Sprintf("server %q %s", l.server.Name, e)
	l.mu.Lock()
	l.over = true
	for len(l.order) > 0 {
		ex := l.order[0]
		if e.Asked { // the session was deleted, or the agent's time is over
			l.recordLeft(ex)
		}
		given := l.giveUp(ex)
		for i, id := range given {
			l.answer(ex, id, evidence.SyntheticTransport, codeTransport, text, i == len(given)-1)
		}
	}
	l.lateIDs.clear()
	l.wake()
	l.own.queue.close()
	if l.own.holder == nil {
		l.own.queue.discard()
	}
	l.mu.Unlock()
	if l.journal != nil {
		l.journal.close()
	}

	l.server.drop(l)
	if errors.Is(e.Err, transport.ErrTooLong) || errors.Is(e.Err, transport.ErrNoMemory) || errors.Is(e.Err, transport.ErrFlooded) {
		e.Cause = e.Err
	}
	switch {
	case errors.Is(e.Cause, transport.ErrFlooded):
		l.server.events.Add("limit", "the server was ended: "+e.Cause.Error(), map[string]any{"conn": l.conn})
	case e.Cause != nil:
		l.server.events.Add("limit", "the server was ended: its message was "+e.Cause.Error(), map[string]any{"conn": l.conn})
	}
	data := e.Data()
	data["conn"] = l.conn
	l.server.events.Add("server_exit", e.String(), data)
	l.server.proxy.forget(l)
}

func (l *link) record(f evidence.Frame) {
	f.Server, f.Conn = l.server.Name, l.conn
	l.server.proxy.rec.Frame(f)
}

func (l *link) recordClient(c call) {
	peer := c.peer
	peer.Session = l.session
	if defence.RecordedRequests {
		l.record(evidence.Frame{Dir: evidence.ToServer, Raw: c.raw, Peer: &peer})
	}
}
