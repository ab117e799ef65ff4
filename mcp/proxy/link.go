package proxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
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
	bridge  *bridge
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
func startLink(s *bridge, conn, session string) (*link, error) {
	p := s.proxy
	l := &link{
		bridge:  s,
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

// open records the requests of a POST and has their answers routed to the
// exchange it returns. It waits while an id of them is in use by another.
func (l *link) open(c call) (*exchange, error) {
	ex := newExchange(l, c)
	ctx, cancel := context.WithTimeout(c.ctx, l.bridge.Timeout)
	defer cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.order)+l.waiting >= l.bridge.proxy.limits.InFlight {
		l.bridge.events.Add("limit", fmt.Sprintf("%d requests at once are the most", l.bridge.proxy.limits.InFlight),
			map[string]any{"conn": l.conn})
		return nil, errBusy
	}
	l.waiting++
	defer func() { l.waiting-- }()
	for {
		if l.over {
			return nil, transport.ErrEnded
		}
		turn, taken := l.conflict(ex)
		if !taken {
			break
		}
		if err := l.wait(ctx, turn); err != nil {
			return nil, err
		}
	}
	if !l.bridge.proxy.memory.Take(ex.held) {
		return nil, transport.ErrNoMemory
	}
	l.begin(ex, c)
	return ex, nil
}

// conflict says whether an id of ex is taken, and how long the ones of requests
// that were given up stay so; turn is 0 where one is in flight.
func (l *link) conflict(ex *exchange) (turn time.Duration, taken bool) {
	for key := range ex.open {
		if l.pending[key] != nil {
			return 0, true
		}
		if left := l.lateIDs.left(key); left > 0 {
			return left, true
		}
	}
	return 0, false
}

// wait gives the lock up until an id became free, turn is over where it is not 0,
// or ctx has ended.
func (l *link) wait(ctx context.Context, turn time.Duration) error {
	changed := l.changed
	l.mu.Unlock()
	defer l.mu.Lock()
	var timer <-chan time.Time
	if turn > 0 {
		t := time.NewTimer(turn)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-changed:
	case <-timer:
	case <-ctx.Done():
		return errInUse
	}
	return nil
}

// wake has requests look again whether their ids are free.
func (l *link) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *link) begin(ex *exchange, c call) {
	for key := range ex.open {
		l.pending[key] = ex
	}
	l.order = append(l.order, ex)
	l.lastStream++
	ex.stream = l.lastStream
	l.streams[ex.stream] = ex
	l.recordClient(c)
	if defence.Timeouts && !ex.endless {
		ex.timer = time.AfterFunc(l.bridge.Timeout, func() { l.expire(ex) })
	}
}

// giveUp closes ex to answers, and returns the ids it still waited for.
func (l *link) giveUp(ex *exchange) []jsonrpc.ID {
	var given []jsonrpc.ID
	for key, id := range ex.open {
		given = append(given, id)
		l.late++
		if !l.over {
			l.lateIDs.add(key)
		}
		l.settle(ex, key)
	}
	return given
}

// settle marks one id of ex as answered.
func (l *link) settle(ex *exchange, key string) {
	delete(ex.open, key)
	delete(l.pending, key)
	l.wake()
	if len(ex.open) > 0 {
		return
	}
	l.order = slices.DeleteFunc(l.order, func(other *exchange) bool { return other == ex })
	if ex.timer != nil {
		ex.timer.Stop()
	}
	l.bridge.proxy.memory.Give(ex.held)
	ex.settled()
}

// answerRest gives up ex and answers what it still waited for. It returns those ids.
func (l *link) answerRest(ex *exchange, why evidence.Synthetic, code int, text string) []jsonrpc.ID {
	given := l.giveUp(ex)
	for i, id := range given {
		l.answer(ex, id, why, code, text, i == len(given)-1)
	}
	return given
}

// answer gives ex an answer of the proxy's own, and records it as such.
func (l *link) answer(ex *exchange, id jsonrpc.ID, why evidence.Synthetic, code int, text string, last bool) {
	raw := errorResponse(id.Raw, code, text)
	l.record(evidence.Frame{Dir: evidence.ToClient, Raw: raw, Synthetic: why})
	l.deliver(ex, item{raw: raw, last: last, failed: true})
}

func (l *link) isShared() bool { return l.session == "" }

func (l *link) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

func (l *link) speaks(version string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return isSessionVersion(version) || version == l.version
}

// tell records a POST that nothing is answered to, and writes it to the server.
func (l *link) tell(c call) error {
	l.mu.Lock()
	l.recordClient(c)
	l.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(c.ctx), l.bridge.Timeout, errTimeout)
	defer cancel()
	err := l.lines.Send(ctx, c.raw)
	if err != nil {
		l.bridge.events.Add("undelivered", fmt.Sprintf("to the server: %v", err), map[string]any{"conn": l.conn})
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
	l.bridge.events.Add("limit", "a request was "+why.Error(), map[string]any{"conn": l.conn})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answerRest(ex, evidence.SyntheticTransport, codeTransport, "the message is "+why.Error())
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
		l.bridge.events.Add("cancelled", reasonLeft, map[string]any{"conn": l.conn, "id": string(id.Raw)})
	}
	l.cancelOnStdio(given, reasonLeft)
}

// expire answers what ex still waits for with a timeout. To a client of a
// revision without sessions the request is over then, so the server is told.
func (l *link) expire(ex *exchange) {
	reason := fmt.Sprintf("server %q did not answer within %v", l.bridge.Name, l.bridge.Timeout)
	l.mu.Lock()
	given := l.answerRest(ex, evidence.SyntheticTimeout, codeTimeout, reason)
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
	ctx, cancel := context.WithTimeoutCause(context.Background(), l.bridge.Grace, errTimeout)
	defer cancel()
	for _, id := range given {
		_ = l.lines.Send(ctx, cancellation(id, reason))
	}
}

// end is called once, when the process has ended and all it wrote was routed.
func (l *link) end(e transport.Ending) {
	text := fmt.Sprintf("server %q %s", l.bridge.Name, e)
	l.mu.Lock()
	l.over = true
	for len(l.order) > 0 {
		ex := l.order[0]
		if e.Asked { // the session was deleted, or the agent's time is over
			l.recordLeft(ex)
		}
		l.answerRest(ex, evidence.SyntheticTransport, codeTransport, text)
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

	l.bridge.drop(l)
	if errors.Is(e.Err, transport.ErrTooLong) || errors.Is(e.Err, transport.ErrNoMemory) || errors.Is(e.Err, transport.ErrFlooded) {
		e.Cause = e.Err
	}
	switch {
	case errors.Is(e.Cause, transport.ErrFlooded):
		l.bridge.events.Add("limit", "the server was ended: "+e.Cause.Error(), map[string]any{"conn": l.conn})
	case e.Cause != nil:
		l.bridge.events.Add("limit", "the server was ended: its message was "+e.Cause.Error(), map[string]any{"conn": l.conn})
	}
	data := e.Data()
	data["conn"] = l.conn
	l.bridge.events.Add("server_exit", e.String(), data)
	l.bridge.proxy.forget(l)
}

func (l *link) record(f evidence.Frame) {
	f.Server, f.Conn = l.bridge.Name, l.conn
	l.bridge.proxy.rec.Frame(f)
}

func (l *link) recordClient(c call) {
	peer := c.peer
	peer.Session = l.session
	if defence.RecordedRequests {
		l.record(evidence.Frame{Dir: evidence.ToServer, Raw: c.raw, Peer: &peer})
	}
}

// lateGrace is how long the id of a request that was given up is kept from other
// requests, so that its late answer does not reach them.
const lateGrace = 5 * time.Second

// lateIDs are the ids of requests that were given up. Where there is no memory for
// one it is not kept: only an agent that floods is short of it.
type lateIDs struct {
	memory *bounded.Budget
	until  map[string]time.Time
}

func (o *lateIDs) add(key string) {
	now := time.Now()
	maps.DeleteFunc(o.until, func(key string, until time.Time) bool {
		if !until.Before(now) {
			return false
		}
		o.memory.Give(idCost(key))
		return true
	})
	if _, there := o.until[key]; !there && !o.memory.Take(idCost(key)) {
		return
	}
	if o.until == nil {
		o.until = map[string]time.Time{}
	}
	o.until[key] = now.Add(lateGrace)
}

// left is how long key is still kept.
func (o *lateIDs) left(key string) time.Duration { return time.Until(o.until[key]) }

func (o *lateIDs) drop(key string) {
	if _, there := o.until[key]; there {
		delete(o.until, key)
		o.memory.Give(idCost(key))
	}
}

func (o *lateIDs) clear() {
	for key := range o.until {
		o.drop(key)
	}
}

// idCost is more than what is held to remember an id.
func idCost(key string) int64 { return int64(len(key)) + 128 }
