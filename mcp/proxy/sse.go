package proxy

import (
	"bytes"
	"context"
	"net/http"
	"time"
)

// sse writes server-sent events to one response. Each write has the agent's time
// limit; after a failed one the stream is of no use.
type sse struct {
	w       http.ResponseWriter
	control *http.ResponseController
	limit   time.Duration
	begun   bool // an event with an id went out
	broken  bool
}

// retry is how long an agent shall wait until it resumes a stream, in
// milliseconds.
const retry = "1000"

// openSSE sends the headers of a stream.
func openSSE(w http.ResponseWriter, limit time.Duration) *sse {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	return startSSE(w, http.StatusOK, limit)
}

// startSSE sends a stream's status and the headers that are set.
func startSSE(w http.ResponseWriter, status int, limit time.Duration) *sse {
	s := &sse{w: w, control: http.NewResponseController(w), limit: limit}
	w.WriteHeader(status)
	s.write()
	return s
}

// send sends the next message of f.
func (s *sse) send(f *feed, it item) bool {
	if f.journal == nil {
		return s.message(it.raw)
	}
	return s.event(f.sending(it).String(), it.raw)
}

// silent tells the agent that the stream is alive. The first time, where it can be
// resumed, the agent also learns after which event: the specification has servers
// say so at once, but nearly every stream has ended by now.
func (s *sse) silent(f *feed) bool {
	if f.journal == nil || s.begun || !f.primes {
		return s.keepalive()
	}
	return s.write(append(s.begin(f.prime().String()), []byte("data: \n\n"))...)
}

// begin is the head of an event; the first on a stream that can be resumed says
// when to.
func (s *sse) begin(id string) [][]byte {
	if id == "" {
		return nil
	}
	parts := [][]byte{[]byte("id: " + id + "\n")}
	if !s.begun {
		s.begun = true
		parts = append(parts, []byte("retry: "+retry+"\n"))
	}
	return parts
}

// message sends raw as one event without an id.
func (s *sse) message(raw []byte) bool { return s.event("", raw) }

// event sends raw as one event, with an id where it is not "". A carriage return would end a line of the
// event, so there a new data line starts, and the agent reads a newline: both are
// the same white space to JSON, which has them nowhere else.
func (s *sse) event(id string, raw []byte) bool {
	parts := append(s.begin(id), []byte("event: message\ndata: "))
	for i, part := range bytes.Split(raw, []byte("\r")) {
		if i > 0 {
			parts = append(parts, []byte("\ndata: "))
		}
		parts = append(parts, part)
	}
	return s.write(append(parts, []byte("\n\n"))...)
}

func (s *sse) keepalive() bool { return s.write([]byte(": keepalive\n\n")) }

func (s *sse) write(parts ...[]byte) bool {
	if s.broken {
		return false
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(s.limit))
	for _, part := range parts {
		if _, err := s.w.Write(part); err != nil {
			s.broken = true
			return false
		}
	}
	s.broken = s.control.Flush() != nil
	return !s.broken
}

// close lifts the time limit, so that the connection can serve again.
func (s *sse) close() {
	if !s.broken {
		_ = s.control.SetWriteDeadline(time.Time{})
	}
}

// copy sends what f holds until it is closed, and a sign of life whenever it was
// silent for idle. It says whether it came to the end.
func (s *sse) copy(ctx context.Context, f *feed, idle time.Duration) bool {
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
			sent := s.send(f, it)
			f.queue.done(it)
			if !sent {
				return false
			}
		}
	}
}
