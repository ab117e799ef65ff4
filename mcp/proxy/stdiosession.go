package proxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
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

// stdioSession is a conversation with one process: a session, or all requests without a
// session, which share a process.
type stdioSession struct {
	conversation
	bridge *bridge
	id     string      // of the session
	shared atomic.Bool // it is not a session, or not yet; see become
	lines  *transport.Lines
	own    *agentStream // messages for the agent that belong to no request
	replay *replayBuffer

	mu      sync.Mutex
	version string               // negotiated by initialize; guarded by mu
	pending map[string]*exchange // by id key; guarded by mu
	order   []*exchange          // in flight, oldest first; guarded by mu
	waiting int                  // requests waiting for their ids to become free; guarded by mu
	lateIDs lateIDs              // ids that may still be answered; guarded by mu
	changed chan struct{}        // closed and replaced when an id becomes free; guarded by mu
	over    bool                 // the process has ended; guarded by mu
	spoke   bool                 // the server has sent a message; guarded by mu
	served  bool                 // the server has answered without an error; guarded by mu
	lastID  int64                // the largest integer id of the client's requests; guarded by mu
	freed   bool                 // free was called; guarded by mu
	killed  bool                 // by a fault; guarded by mu

	streams    map[uint64]*exchange // in flight, by stream number; guarded by mu
	lastStream uint64               // guarded by mu
}

// startStdioSession starts a process and a conversation with it: a session with an ID, or the shared
// one, which may become that session.
func startStdioSession(b *bridge, conn, session string, shared bool) (*stdioSession, error) {
	p := b.proxy
	replay := &replayBuffer{max: p.limits.Queue, memory: p.replay}
	s := &stdioSession{
		conversation: conversation{b.server, conn},
		bridge:       b,
		id:           session,
		own:          &agentStream{queue: newQueue(p.limits.Queue, p.memory), stream: ownStream, replay: replay},
		replay:       replay,
		streams:      map[uint64]*exchange{},
		pending:      map[string]*exchange{},
		lateIDs:      lateIDs{memory: p.memory},
		changed:      make(chan struct{}),
	}
	s.shared.Store(shared)
	started := make(chan struct{}) // closed when s.lines is set
	lines, err := transport.Open(p.ctx, b.Server.Server, b.Launcher(p.memory), transport.Handler{
		Memory: p.memory,
		Stderr: transport.NewStderr(b.Stderr),
		Line:   func(line []byte) error { <-started; return s.receive(line) },
		Ended:  func(e transport.Ending) { <-started; s.end(e) },
	})
	if err != nil {
		return nil, err
	}
	s.lines = lines
	b.part.adopt(s)
	close(started)
	return s, nil
}

// open records the requests of a POST, and returns the exchange for their answers. It waits
// while one of their ids is in use.
func (s *stdioSession) open(in inbound) (*exchange, error) {
	ex := newExchange(s, in)
	ctx, cancel := context.WithTimeout(in.ctx, s.bridge.Timeout)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.order)+s.waiting >= s.bridge.proxy.limits.InFlight {
		s.note("limit", fmt.Sprintf("no more than %d requests at once are allowed", s.bridge.proxy.limits.InFlight))
		return nil, errBusy
	}
	s.waiting++
	defer func() { s.waiting-- }()
	for {
		if s.over {
			return nil, transport.ErrEnded
		}
		turn, taken := s.conflict(ex)
		if !taken {
			break
		}
		if err := s.wait(ctx, turn); err != nil {
			return nil, err
		}
	}
	if !s.bridge.proxy.memory.Take(ex.held) {
		return nil, transport.ErrNoMemory
	}
	s.begin(ex, in)
	return ex, nil
}

// conflict reports whether an id of ex is in use. turn is 0 if a request in flight has it,
// otherwise how long the id of a request that was given up stays reserved.
func (s *stdioSession) conflict(ex *exchange) (turn time.Duration, taken bool) {
	for key := range ex.open {
		if s.pending[key] != nil {
			return 0, true
		}
		if left := s.lateIDs.left(key); left > 0 {
			return left, true
		}
	}
	return 0, false
}

// wait releases the lock until an id becomes free, turn has passed (unless it is 0), or ctx
// ends.
func (s *stdioSession) wait(ctx context.Context, turn time.Duration) error {
	changed := s.changed
	s.mu.Unlock()
	defer s.mu.Lock()
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

// wake makes waiting requests check again whether their ids are free.
func (s *stdioSession) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *stdioSession) begin(ex *exchange, in inbound) {
	for key, id := range ex.open {
		s.pending[key] = ex
		if n, err := strconv.ParseInt(string(id.Raw), 10, 64); err == nil && n < maxID {
			s.lastID = max(s.lastID, n)
		}
	}
	s.order = append(s.order, ex)
	s.lastStream++
	ex.stream = s.lastStream
	s.streams[ex.stream] = ex
	s.recordClient(in)
	if defence.Timeouts && !ex.endless {
		ex.limit = s.limit(in)
		ex.timer = time.AfterFunc(ex.limit, func() { s.expire(ex) })
	}
}

// maxID is an id that no client reaches by counting. The runner continues after smaller ids.
const maxID = 1 << 52

// free releases the agent's state of a process that is kept for the runner.
func (s *stdioSession) free() {
	s.bridge.part.forget(s)
	s.bridge.proxy.runner.adopt(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freed = true
	for len(s.order) > 0 {
		ex := s.order[0]
		s.recordLeft(ex)
		s.answerRest(ex, evidence.SyntheticTransport, codeTransport, fmt.Sprintf("the session with server %q is over", s.bridge.Name))
	}
	s.closeOwn()
}

// closeOwn ends the stream of messages that belong to no request, and what is kept of all streams.
// The caller holds mu.
func (s *stdioSession) closeOwn() {
	s.own.queue.close()
	if s.own.holder == nil {
		s.own.queue.discard()
	}
	s.replay.close()
}

// kill ends the process at once, for a fault, and returns when it has ended or ctx is done.
func (s *stdioSession) kill(ctx context.Context) {
	s.mu.Lock()
	s.killed = true
	s.mu.Unlock()
	b := s.bridge
	b.drop(s)
	b.mu.Lock()
	if b.last == s {
		b.last = nil
	}
	b.mu.Unlock()
	s.lines.Kill()
	select {
	case <-s.lines.Gone():
	case <-ctx.Done():
	}
}

func (s *stdioSession) isReleased() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.freed
}

// limit returns the time limit of a request. A request that opens a session also starts a process,
// and gets the limit for that; a request to a shared process that has sent nothing yet gets the
// larger of both.
func (s *stdioSession) limit(in inbound) time.Duration {
	switch {
	case !s.isShared() && in.env.isInitialize():
		return s.bridge.Start
	case s.isShared() && !s.spoke:
		return max(s.bridge.Start, s.bridge.Timeout)
	}
	return s.bridge.Timeout
}

// giveUp stops ex from accepting answers, and returns the ids that were unanswered.
func (s *stdioSession) giveUp(ex *exchange) []jsonrpc.ID {
	var given []jsonrpc.ID
	for key, id := range ex.open {
		given = append(given, id)
		if !s.over {
			s.lateIDs.add(key)
		}
		s.settle(ex, key)
	}
	return given
}

// settle marks one id of ex as answered.
func (s *stdioSession) settle(ex *exchange, key string) {
	delete(ex.open, key)
	delete(s.pending, key)
	s.wake()
	if len(ex.open) > 0 {
		return
	}
	s.order = slices.DeleteFunc(s.order, func(other *exchange) bool { return other == ex })
	if ex.timer != nil {
		ex.timer.Stop()
	}
	s.bridge.proxy.memory.Give(ex.held)
	ex.settled()
}

// answerRest gives up ex and answers its unanswered ids with an error. It returns those
// ids.
func (s *stdioSession) answerRest(ex *exchange, why evidence.Synthetic, code int, text string) []jsonrpc.ID {
	given := s.giveUp(ex)
	for i, id := range given {
		s.answer(ex, id, why, code, text, i == len(given)-1)
	}
	return given
}

// answer sends ex an error from the proxy itself, and records it as synthetic.
func (s *stdioSession) answer(ex *exchange, id jsonrpc.ID, why evidence.Synthetic, code int, text string, last bool) {
	raw := errorResponse(id.Raw, code, text)
	frame := evidence.Frame{Dir: evidence.ToClient, Raw: raw, Synthetic: why}
	if s.killed {
		frame.Fault = evidence.FaultKill
	}
	s.record(frame)
	s.deliver(ex, item{raw: raw, last: last, failed: true})
}

func (s *stdioSession) isShared() bool { return s.shared.Load() }

// become turns the shared session into a session, and reports whether it has: the server must have
// answered, and nothing but errors. So a server that rejects server/discover gets the client's
// initialize in the same process, as from a client on stdio (2026-07-28 basic/versioning). A request
// without a session that arrives at the same time is answered like one of the session.
func (s *stdioSession) become() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.spoke || s.served || s.over || s.killed || s.freed || len(s.order)+s.waiting > 0 {
		return false
	}
	s.shared.Store(false)
	return true
}

// name returns the session's ID, or "" if it is shared.
func (s *stdioSession) name() string {
	if s.isShared() {
		return ""
	}
	return s.id
}

func (s *stdioSession) hasEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

func (s *stdioSession) speaks(version string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return isSessionVersion(version) || version == s.version
}

// sendNotice records a POST without requests, and writes it to the server.
func (s *stdioSession) sendNotice(in inbound) error {
	s.mu.Lock()
	s.recordClient(in)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(in.ctx), s.bridge.Timeout, errTimeout)
	defer cancel()
	err := s.lines.Send(ctx, in.raw)
	if err != nil {
		s.note("undelivered", fmt.Sprintf("to the server: %v", err))
	}
	return err
}

// sendRequests writes the requests of ex to the server. If there is no memory for them it
// answers them with an error; after any other failure the exit of the process or the time
// limit does.
func (s *stdioSession) sendRequests(ex *exchange, in inbound) {
	ctx, cancel := context.WithCancel(ex.ctx)
	defer cancel()
	if s.isShared() { // a closed connection cancels
		defer context.AfterFunc(in.ctx, cancel)()
	}
	if err := s.lines.Send(ctx, in.raw); errors.Is(err, transport.ErrNoMemory) {
		s.refuse(ex, err)
	}
}

// refuse answers the requests of ex, which did not reach the server, with an error.
func (s *stdioSession) refuse(ex *exchange, why error) {
	s.note("limit", "a request was "+why.Error())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answerRest(ex, evidence.SyntheticTransport, codeTransport, "the message is "+why.Error())
}

// reasonLeft is the recorded reason of a request that was cancelled or abandoned.
const reasonLeft = "the client closed the response stream"

// abandon is called when the agent has closed the connection of ex. Up to 2025-11-25 this
// cancels nothing, and the agent may resume the stream. From 2026-07-28 it cancels the
// requests, for which stdio has a notification.
func (s *stdioSession) abandon(ex *exchange) {
	s.mu.Lock()
	s.recordLeft(ex)
	if !s.detach(ex) {
		ex.queue.discard() // routing skips closed queues
	}
	if !s.isShared() {
		s.mu.Unlock()
		return
	}
	given := s.giveUp(ex)
	s.mu.Unlock()
	for _, id := range given {
		s.bridge.events.Add("cancelled", reasonLeft, map[string]any{"conn": s.conn, "id": string(id.Raw)})
	}
	s.cancelOnStdio(given, reasonLeft)
}

// expire answers the unanswered requests of ex with a timeout. In revisions without
// sessions it also cancels the requests at the server.
func (s *stdioSession) expire(ex *exchange) {
	s.mu.Lock()
	reason := fmt.Sprintf("server %q did not answer within %v", s.bridge.Name, ex.limit)
	given := s.answerRest(ex, evidence.SyntheticTimeout, codeTimeout, reason)
	if s.isShared() {
		s.recordCancel(given, evidence.SyntheticTimeout, reason)
	}
	s.mu.Unlock()
	if s.isShared() {
		s.cancelOnStdio(given, reason)
	}
}

// recordLeft records, once, that the agent disconnected before the answers to ex.
func (s *stdioSession) recordLeft(ex *exchange) {
	if ex.abandoned {
		return
	}
	ex.abandoned = true
	why := evidence.SyntheticAbandoned
	if s.isShared() {
		why = evidence.SyntheticCancelled
	}
	s.recordCancel(slices.Collect(maps.Values(ex.open)), why, reasonLeft)
}

// recordCancel records cancellations as synthetic frames; cancelOnStdio sends them.
func (s *stdioSession) recordCancel(given []jsonrpc.ID, why evidence.Synthetic, reason string) {
	for _, id := range given {
		s.record(evidence.Frame{Dir: evidence.ToServer, Raw: cancellation(id, reason), Synthetic: why})
	}
}

// cancelOnStdio sends cancellations to the server.
func (s *stdioSession) cancelOnStdio(given []jsonrpc.ID, reason string) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), s.bridge.Grace, errTimeout)
	defer cancel()
	for _, id := range given {
		_ = s.lines.Send(ctx, cancellation(id, reason))
	}
}

// end is called once, after the process has ended and all its output was routed.
func (s *stdioSession) end(e transport.Ending) {
	s.mu.Lock()
	text := fmt.Sprintf("server %q %s", s.bridge.Name, e)
	in, b := s.conversation, s.bridge
	s.over = true
	for len(s.order) > 0 {
		ex := s.order[0]
		if e.Asked && !s.killed { // the session was deleted, or the agent's time is over
			s.recordLeft(ex)
		}
		s.answerRest(ex, evidence.SyntheticTransport, codeTransport, text)
	}
	s.lateIDs.clear()
	s.wake()
	s.closeOwn()
	s.mu.Unlock()

	b.drop(s)
	if errors.Is(e.Err, transport.ErrTooLong) || errors.Is(e.Err, transport.ErrNoMemory) || errors.Is(e.Err, transport.ErrFlooded) {
		e.Cause = e.Err
	}
	switch {
	case errors.Is(e.Cause, transport.ErrFlooded):
		in.note("limit", "the server was ended: "+e.Cause.Error())
	case e.Cause != nil:
		in.note("limit", "the server was ended: its message was "+e.Cause.Error())
	}
	if !b.isOwn() { // the runner's own sessions say how their process ended
		data := e.Data()
		data["conn"] = in.conn
		b.events.Add("server_exit", e.String(), data)
	}
	b.proxy.agent.forget(s)
	b.proxy.runner.forget(s)
}

func (s *stdioSession) recordClient(in inbound) {
	peer := in.peer
	peer.Session = s.name()
	if defence.RecordedRequests {
		s.record(evidence.Frame{Dir: evidence.ToServer, Raw: in.raw, Peer: &peer, Fault: in.fault.name()})
	}
}

// lateGrace is how long the id of a request that was given up stays reserved, so that a
// late answer does not reach another request.
const lateGrace = 5 * time.Second

// lateIDs holds the ids of requests that were given up. If the memory budget is exhausted
// an id is not remembered, which happens only to an agent that floods.
type lateIDs struct {
	memory *bounded.Budget
	until  map[string]time.Time
}

func (ids *lateIDs) add(key string) {
	now := time.Now()
	maps.DeleteFunc(ids.until, func(key string, until time.Time) bool {
		if !until.Before(now) {
			return false
		}
		ids.memory.Give(idCost(key))
		return true
	})
	if _, there := ids.until[key]; !there && !ids.memory.Take(idCost(key)) {
		return
	}
	if ids.until == nil {
		ids.until = map[string]time.Time{}
	}
	ids.until[key] = now.Add(lateGrace)
}

// left returns how long key stays reserved.
func (ids *lateIDs) left(key string) time.Duration { return time.Until(ids.until[key]) }

func (ids *lateIDs) drop(key string) {
	if _, there := ids.until[key]; there {
		delete(ids.until, key)
		ids.memory.Give(idCost(key))
	}
}

func (ids *lateIDs) clear() {
	for key := range ids.until {
		ids.drop(key)
	}
}

// idCost returns an upper bound on the memory of an id.
func idCost(key string) int64 { return int64(len(key)) + 128 }
