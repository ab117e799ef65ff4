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
	// agent comes back for it. Guarded by the link's mu.
	late *evidence.Frame

	held int64 // bytes that whoever took it from a queue accounts for
}

// streams says whether a response of this item alone is a stream to an agent
// that accepts a. Where both forms can hold it, it is, as it is from the SDKs'
// servers; a status or a carriage return is for the other form only.
func (it item) streams(a accepts) bool {
	return a.stream && it.httpStatus() == http.StatusOK && !bytes.ContainsRune(it.raw, '\r')
}

func (it item) httpStatus() int { return cmp.Or(it.status, http.StatusOK) }

// queue holds messages until one of the agent's streams takes them.
type queue struct {
	max    int
	memory *bounded.Budget
	wake   chan struct{} // holds one token while there may be something to see

	mu     sync.Mutex
	items  []item // guarded by mu
	closed bool   // guarded by mu
}

func newQueue(max int, memory *bounded.Budget) *queue {
	return &queue{max: max, memory: memory, wake: make(chan struct{}, 1)}
}

// push says whether the queue took it. What it took counts for memory until it is
// [queue.done] with.
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

// done gives back the memory of what was taken.
func (q *queue) done(it item) { q.memory.Give(it.held) }

// close lets what is queued be taken and nothing be added.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}

// discard is close, and drops what is queued.
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

type wait uint8

const (
	took wait = iota + 1
	idled
	closed
	left // the context ended
)

// next waits for a message, the end of the queue, or idle of silence. The caller is
// done with the message at some time, and says so.
func (q *queue) next(ctx context.Context, idle time.Duration) (item, wait) {
	timer := time.NewTimer(idle)
	defer timer.Stop()
	for {
		if it, w := q.take(); w != idled {
			return it, w
		}
		select {
		case <-q.wake:
		case <-timer.C:
			return item{}, idled
		case <-ctx.Done():
			return item{}, left
		}
	}
}

func (q *queue) take() (item, wait) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		if q.closed {
			q.signal() // for whoever waits next
			return item{}, closed
		}
		return item{}, idled
	}
	it := q.items[0]
	q.items[0] = item{}
	q.items = q.items[1:]
	if len(q.items) > 0 {
		q.signal()
	}
	return it, took
}

func (q *queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// journal keeps what was sent on the streams of a session, for an agent whose
// connection broke; 2025-11-25 basic/transports, "Resumability and Redelivery".
// The oldest gives way to the newest.
type journal struct {
	max    int             // events
	memory *bounded.Budget // for the journals of all sessions

	mu     sync.Mutex
	events []sentEvent // oldest first; guarded by mu
	closed bool        // guarded by mu
}

// sentEvent is one message as it went out on a stream.
type sentEvent struct {
	id   eventID
	raw  []byte
	late *evidence.Frame // see item
}

// eventID tells an event from all others of a session: the how-many-eth it is of
// which stream. Number 0 is before the first.
type eventID struct{ stream, number uint64 }

func (id eventID) String() string {
	return strconv.FormatUint(id.stream, 10) + "-" + strconv.FormatUint(id.number, 10)
}

// parseEventID reads what an agent sent back.
func parseEventID(s string) (eventID, bool) {
	stream, number, ok := strings.Cut(s, "-")
	var id eventID
	var err, err2 error
	id.stream, err = strconv.ParseUint(stream, 10, 64)
	id.number, err2 = strconv.ParseUint(number, 10, 64)
	return id, ok && err == nil && err2 == nil && id.String() == s
}

// agentStream is one stream to the agent, which may outlive a connection: what waits to
// be sent on it, and how far it has come.
type agentStream struct {
	queue   *queue
	journal *journal // nil where streams cannot be resumed
	stream  uint64   // unique in its session
	primes  bool     // agents of its revision take an event without data

	sent   uint64  // events; guarded by the journal's mu
	primed bool    // an id went out before the first event; guarded by the journal's mu
	holder *holder // guarded by the link's mu
}

// sending numbers a message that is about to go out, and keeps it.
func (f *agentStream) sending(it item) eventID {
	j := f.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	f.sent++
	e := sentEvent{id: eventID{f.stream, f.sent}, raw: it.raw, late: it.late}
	j.keep(e)
	return e.id
}

// prime is the id to resume after when nothing was sent yet.
func (f *agentStream) prime() eventID {
	f.journal.mu.Lock()
	defer f.journal.mu.Unlock()
	f.primed = true
	return eventID{f.stream, f.sent}
}

// canResume says whether the agent may know an id of the stream's.
func (f *agentStream) canResume() bool {
	if f.journal == nil {
		return false
	}
	f.journal.mu.Lock()
	defer f.journal.mu.Unlock()
	return f.primed || f.sent > 0
}

// keep adds an event. One that is too large for the journal empties it, so that
// there is no gap that nobody sees.
func (j *journal) keep(e sentEvent) {
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

// since is what was sent on a stream after an event, live where the stream has
// not ended. It is false where that is not known any more, or never was.
func (j *journal) since(after eventID, live *agentStream) ([]sentEvent, bool) {
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

// close forgets everything, and keeps nothing any more.
func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	for _, e := range j.events {
		j.memory.Give(int64(cap(e.raw)))
	}
	j.events = nil
}
