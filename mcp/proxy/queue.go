package proxy

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
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
