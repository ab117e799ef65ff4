package proxy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/waza-isolate/waza/mcp/sse"
)

// eventWriter writes an event stream to one response. Each write has the agent's time
// limit; after a failed one the stream is of no use.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	limit   time.Duration
	status  int
	sent    bool // the headers went out, or are about to
	begun   bool // an event with an id went out
	broken  bool
}

// retry is how long an agent shall wait until it resumes a stream.
const retry = time.Second

// openStream sets the headers of a stream. They go out with what is sent first.
func openStream(w http.ResponseWriter, limit time.Duration) *eventWriter {
	h := w.Header()
	h.Set("Content-Type", sse.ContentType)
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	return newEventWriter(w, http.StatusOK, limit)
}

// newEventWriter returns a writer of a response with a status and the headers that are
// set. They go out with what is sent first.
func newEventWriter(w http.ResponseWriter, status int, limit time.Duration) *eventWriter {
	return &eventWriter{w: w, control: http.NewResponseController(w), limit: limit, status: status}
}

// start sends the headers alone, to an agent that waits for them.
func (s *eventWriter) start() { s.write(nil) }

// next sends the next message of f.
func (s *eventWriter) next(f *agentStream, it item) bool {
	id := ""
	if f.journal != nil {
		id = f.sending(it).String()
	}
	m := s.event(id, it.raw)
	if it.last && !s.sent { // the whole response: it has a length in place of chunks
		size, _ := m.WriteTo(io.Discard)
		s.w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	}
	return s.send(m)
}

// silent tells the agent that the stream is alive. The first time, where it can be
// resumed, the agent also learns after which event: the specification has servers
// say so at once, but nearly every stream has ended by now.
func (s *eventWriter) silent(f *agentStream) bool {
	if f.journal == nil || s.begun || !f.primes {
		return s.keepalive()
	}
	return s.send(s.first(sse.Message{ID: f.prime().String()}))
}

// message sends raw as one event, with an id where it is not "".
func (s *eventWriter) message(id string, raw []byte) bool {
	return s.send(s.event(id, raw))
}

// event is the event of a message.
func (s *eventWriter) event(id string, raw []byte) sse.Message {
	return s.first(sse.Message{ID: id, Type: "message", Data: raw})
}

// first has m say when to resume, where it is the first on a stream that can be resumed.
func (s *eventWriter) first(m sse.Message) sse.Message {
	if m.ID != "" && !s.begun {
		s.begun = true
		m.Retry = retry
	}
	return m
}

func (s *eventWriter) keepalive() bool { return s.write([]byte(sse.KeepAlive)) }

func (s *eventWriter) write(raw []byte) bool { return s.send(bytes.NewReader(raw)) }

func (s *eventWriter) send(what io.WriterTo) bool {
	if s.broken {
		return false
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(s.limit))
	if !s.sent {
		s.sent = true
		s.w.WriteHeader(s.status)
	}
	_, err := what.WriteTo(s.w)
	s.broken = err != nil || s.control.Flush() != nil
	return !s.broken
}

// close lifts the time limit, so that the connection can serve again.
func (s *eventWriter) close() {
	if !s.broken {
		_ = s.control.SetWriteDeadline(time.Time{})
	}
}

// copy sends what f holds until it is closed, and a sign of life whenever it was
// silent for idle. It says whether it came to the end.
func (s *eventWriter) copy(ctx context.Context, f *agentStream, idle time.Duration) bool {
	for {
		it, how := f.queue.next(ctx, idle)
		switch {
		case how == closed:
			return true
		case how == left:
			return false
		case how == idled && !s.silent(f):
			return false
		case how == took:
			sent := s.next(f, it)
			f.queue.done(it)
			if !sent {
				return false
			}
		}
	}
}
