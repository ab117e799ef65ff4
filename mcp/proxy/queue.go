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

// item is a message on its way to the agent.
type item struct {
	raw    []byte
	last   bool // completes the exchange it is queued for
	failed bool // is an error
	status int  // of HTTP, where it is the whole response; 0 is OK

	// late is the agent's side of an answer to a call that it had left: recorded once the
	// agent comes back for it. Guarded by the stdioSession's mu.
	late *evidence.Frame

	held int64 // bytes of the memory budget, given back by queue.done
}

// streams reports whether a response with this item alone is sent as a stream, to an agent that
// accepts a. It is if that is possible, as by the SDKs' servers; an HTTP status other than 200,
// or a carriage return, cannot be sent in a stream.
func (it item) streams(a accepts) bool {
	return a.stream && it.httpStatus() == http.StatusOK && !bytes.ContainsRune(it.raw, '\r')
}

func (it item) httpStatus() int { return cmp.Or(it.status, http.StatusOK) }

// queue holds messages until one of the agent's streams takes them.
type queue struct {
	max    int
	memory *bounded.Budget
	wake   chan struct{} // holds a token if there may be something to take

	mu     sync.Mutex
	items  []item // guarded by mu
	closed bool   // guarded by mu
}

func newQueue(max int, memory *bounded.Budget) *queue {
	return &queue{max: max, memory: memory, wake: make(chan struct{}, 1)}
}

// push adds a message, and reports whether there was room. It counts against the memory budget
// until [queue.done].
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

// done gives the memory of a message back that was taken.
func (q *queue) done(it item) { q.memory.Give(it.held) }

// close ends the queue: messages in it can be taken, but none added.
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

// next waits for a message or the end of the queue, for at most idle. The caller must call
// [queue.done] with the message.
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
			q.signal() // for whoever waits next
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

// replayBuffer keeps what was sent on the streams of a session, for an agent whose connection
// broke; 2025-11-25 basic/transports, "Resumability and Redelivery". New events replace the
// oldest.
type replayBuffer struct {
	max    int             // events
	memory *bounded.Budget // of the replay buffers of all sessions

	mu     sync.Mutex
	events []sentEvent // oldest first; guarded by mu
	closed bool        // guarded by mu
}

// sentEvent is one message that was sent on a stream.
type sentEvent struct {
	id   eventID
	raw  []byte
	late *evidence.Frame // see item
}

// eventID identifies an event within a session: its stream, and its number in that, from 1.
// Number 0 is before the first.
type eventID struct{ stream, number uint64 }

func (id eventID) String() string {
	return strconv.FormatUint(id.stream, 10) + "-" + strconv.FormatUint(id.number, 10)
}

// parseEventID parses the Last-Event-ID of an agent.
func parseEventID(s string) (eventID, bool) {
	stream, number, ok := strings.Cut(s, "-")
	var id eventID
	var err, err2 error
	id.stream, err = strconv.ParseUint(stream, 10, 64)
	id.number, err2 = strconv.ParseUint(number, 10, 64)
	return id, ok && err == nil && err2 == nil && id.String() == s
}

// agentStream is one stream to the agent, which may outlive a connection: the messages that
// wait to be sent, and how many were sent.
type agentStream struct {
	queue  *queue
	replay *replayBuffer // nil where streams cannot be resumed
	stream uint64        // unique in its session
	primes bool          // agents of its revision accept an event without data

	sent   uint64  // events; guarded by the replay buffer's mu
	primed bool    // an id was sent before the first event; guarded by the replay buffer's mu
	holder *holder // guarded by the stdioSession's mu
}

// sending numbers a message that is about to be sent, and adds it to the replay buffer.
func (s *agentStream) sending(it item) eventID {
	j := s.replay
	j.mu.Lock()
	defer j.mu.Unlock()
	s.sent++
	e := sentEvent{id: eventID{s.stream, s.sent}, raw: it.raw, late: it.late}
	j.keep(e)
	return e.id
}

// prime returns the id after which the stream is resumed if nothing was sent yet.
func (s *agentStream) prime() eventID {
	s.replay.mu.Lock()
	defer s.replay.mu.Unlock()
	s.primed = true
	return eventID{s.stream, s.sent}
}

// canResume reports whether the agent may have an id of the stream's.
func (s *agentStream) canResume() bool {
	if s.replay == nil {
		return false
	}
	s.replay.mu.Lock()
	defer s.replay.mu.Unlock()
	return s.primed || s.sent > 0
}

// keep adds an event. One that is too large for the buffer empties it, so that no gap goes
// unnoticed.
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

// since returns what was sent on a stream after an event; live is the stream if it has not
// ended. It is false if some of that is no longer in the buffer, or there was no such event.
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

// close drops all events, and ignores further ones.
func (j *replayBuffer) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	for _, e := range j.events {
		j.memory.Give(int64(cap(e.raw)))
	}
	j.events = nil
}
