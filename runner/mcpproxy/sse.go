package mcpproxy

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
	broken  bool
}

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

// message sends raw as one event. A carriage return would end a line of the
// event, so there a new data line starts, and the agent reads a newline: both are
// the same white space to JSON, which has them nowhere else.
func (s *sse) message(raw []byte) bool {
	parts := [][]byte{[]byte("event: message\ndata: ")}
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

// copy sends what q holds until it is closed, with a comment whenever it was
// silent for idle. It says whether it came to the end of q.
func (s *sse) copy(ctx context.Context, q *queue, idle time.Duration) bool {
	for {
		it, how := q.next(ctx, idle)
		switch {
		case how == closed:
			return true
		case how == left:
			return false
		case how == idled && !s.keepalive():
			return false
		case how == took && !s.message(it.raw):
			return false
		}
	}
}
