package proxy

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
)

// item is a message to be sent to the agent.
type item struct {
	raw    []byte
	last   bool // completes its exchange
	failed bool // is an error
	status int  // HTTP status if it is the whole response; 0 is OK

	// late is the frame of an answer to a call that the agent abandoned. It is recorded
	// once the agent resumes the stream. Guarded by the stdioSession's mu.
	late *evidence.Frame

	held int64 // bytes of the memory budget, released by queue.done
}

// streams reports whether a response with only this item is sent as a stream to an agent
// that accepts a. Like the SDKs' servers, the proxy prefers a stream, which cannot carry an
// HTTP status other than 200 or a carriage return.
func (it item) streams(a accepts) bool {
	return a.stream && it.httpStatus() == http.StatusOK && !bytes.ContainsRune(it.raw, '\r')
}

func (it item) httpStatus() int { return cmp.Or(it.status, http.StatusOK) }

// queue holds messages until a stream to the agent sends them.
type queue struct {
	max    int
	memory *bounded.Budget
	wake   chan struct{} // holds a token if there may be an item

	mu     sync.Mutex
	items  []item // guarded by mu
	closed bool   // guarded by mu
}

func newQueue(max int, memory *bounded.Budget) *queue {
	return &queue{max: max, memory: memory, wake: make(chan struct{}, 1)}
}

// push adds a message and reports whether there was room. It counts against the memory
// budget until [queue.done].
func (q *queue) push(it item) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.items) >= q.max || !q.memory.Take(int64(cap(it.raw))) {
		return false
	}
	it.held = int64(cap(it.raw))
	q.items = append(q.items, it)
	q.signal()
	return true
}

// done releases the memory of a message that was taken.
func (q *queue) done(it item) { q.memory.Give(it.held) }

// close closes the queue: remaining messages can be taken, but none added.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}

// discard closes the queue and drops its messages.
func (q *queue) discard() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, it := range q.items {
		q.done(it)
	}
	q.items = nil
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

type waitResult uint8

const (
	waitItem waitResult = iota + 1
	waitIdle
	waitClosed
	waitCancelled // the context ended
)

// next waits up to idle for a message or the end of the queue. The caller must pass the
// message to [queue.done].
func (q *queue) next(ctx context.Context, idle time.Duration) (item, waitResult) {
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for {
		if it, w := q.take(); w != waitIdle {
			return it, w
		}
		select {
		case <-q.wake:
		case <-timer.C:
			return item{}, waitIdle
		case <-ctx.Done():
			return item{}, waitCancelled
		}
	}
}

func (q *queue) take() (item, waitResult) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		if q.closed {
			q.signal() // for the next waiter
			return item{}, waitClosed
		}
		return item{}, waitIdle
	}
	it := q.items[0]
	q.items[0] = item{}
	q.items = q.items[1:]
	if len(q.items) > 0 {
		q.signal()
	}
	return it, waitItem
}

func (q *queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// replayBuffer keeps events sent on the streams of a session, so that an agent can resume a
// broken stream; 2025-11-25 basic/transports, "Resumability and Redelivery". New events
// replace the oldest.
type replayBuffer struct {
	max    int             // events
	memory *bounded.Budget // shared by the replay buffers of all sessions

	mu     sync.Mutex
	events []sentEvent // oldest first; guarded by mu
	closed bool        // guarded by mu
}

// sentEvent is one message that was sent on a stream.
type sentEvent struct {
	id   eventID
	raw  []byte
	late *evidence.Frame // see item.late
}

// eventID is the ID of an event: the number of its stream in the session, and its number in
// the stream, counting from 1. Number 0 stands for the start of the stream.
type eventID struct{ stream, number uint64 }

func (id eventID) String() string {
	return strconv.FormatUint(id.stream, 10) + "-" + strconv.FormatUint(id.number, 10)
}

// parseEventID parses a Last-Event-ID header.
func parseEventID(s string) (eventID, bool) {
	stream, number, ok := strings.Cut(s, "-")
	var id eventID
	var err, err2 error
	id.stream, err = strconv.ParseUint(stream, 10, 64)
	id.number, err2 = strconv.ParseUint(number, 10, 64)
	return id, ok && err == nil && err2 == nil && id.String() == s
}

// agentStream is a stream of messages to the agent, which may outlive a connection.
type agentStream struct {
	queue  *queue
	replay *replayBuffer // nil if the stream cannot be resumed
	stream uint64        // unique in its session
	primes bool          // the agent's protocol revision allows events without data

	sent   uint64  // number of events sent; guarded by the replay buffer's mu
	primed bool    // an ID was sent before the first event; guarded by the replay buffer's mu
	holder *holder // guarded by the stdioSession's mu
}

// sending assigns an ID to a message that is about to be sent, and adds it to the replay
// buffer.
func (s *agentStream) sending(it item) eventID {
	j := s.replay
	j.mu.Lock()
	defer j.mu.Unlock()
	s.sent++
	e := sentEvent{id: eventID{s.stream, s.sent}, raw: it.raw, late: it.late}
	j.keep(e)
	return e.id
}

// prime returns the event ID from which the agent can resume the stream as it is now.
func (s *agentStream) prime() eventID {
	s.replay.mu.Lock()
	defer s.replay.mu.Unlock()
	s.primed = true
	return eventID{s.stream, s.sent}
}

// canResume reports whether the agent may have received an event ID of the stream.
func (s *agentStream) canResume() bool {
	if s.replay == nil {
		return false
	}
	s.replay.mu.Lock()
	defer s.replay.mu.Unlock()
	return s.primed || s.sent > 0
}

// keep adds an event, dropping the oldest ones to make room. An event that is too large
// empties the buffer, so that no gap goes unnoticed.
func (j *replayBuffer) keep(e sentEvent) {
	if j.closed {
		return
	}
	for len(j.events) >= j.max || !j.memory.Take(int64(cap(e.raw))) {
		if len(j.events) == 0 {
			return
		}
		j.memory.Give(int64(cap(j.events[0].raw)))
		j.events[0] = sentEvent{}
		j.events = j.events[1:]
	}
	j.events = append(j.events, e)
}

// since returns the events of a stream after the given one. live is the stream, or nil if
// it has ended. It returns false if the buffer no longer has all of them, or has no such
// event.
func (j *replayBuffer) since(after eventID, live *agentStream) ([]sentEvent, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var missed []sentEvent
	known := false
	next := after.number
	for _, e := range j.events {
		if e.id.stream != after.stream {
			continue
		}
		known = known || e.id.number == after.number || e.id.number == after.number+1
		if e.id.number > after.number {
			missed = append(missed, e)
			next = e.id.number
		}
	}
	if live != nil {
		known = known || live.sent == after.number
		return missed, known && live.sent == next
	}
	return missed, known
}

// close drops all events. Later ones are ignored.
func (j *replayBuffer) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	for _, e := range j.events {
		j.memory.Give(int64(cap(e.raw)))
	}
	j.events = nil
}
