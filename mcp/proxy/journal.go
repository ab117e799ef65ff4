package proxy

import (
	"strconv"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
)

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
