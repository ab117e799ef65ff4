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

// eventWriter writes an event stream to one response. Each write must complete within
// limit; after a failed write the stream is broken.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	limit   time.Duration
	status  int
	sent    bool // the headers are sent
	begun   bool // an event with an id was sent
	broken  bool
}

// resumeDelay is how long an agent should wait before it resumes a stream.
const resumeDelay = time.Second

// openStream returns a writer for an event stream. The headers are sent with the first
// write.
func openStream(w http.ResponseWriter, limit time.Duration) *eventWriter {
	h := w.Header()
	h.Set("Content-Type", sse.ContentType)
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	return newEventWriter(w, http.StatusOK, limit)
}

// newEventWriter returns a writer for a response with the given status and the headers of
// w, which are sent with the first write.
func newEventWriter(w http.ResponseWriter, status int, limit time.Duration) *eventWriter {
	return &eventWriter{w: w, control: http.NewResponseController(w), limit: limit, status: status}
}

// start sends the headers, for an agent that waits for them.
func (e *eventWriter) start() { e.write(nil) }

// next sends the next message of a stream.
func (e *eventWriter) next(stream *agentStream, it item) bool {
	id := ""
	if stream.replay != nil {
		id = stream.sending(it).String()
	}
	m := e.event(id, it.raw)
	if it.last && !e.sent { // the whole response: send its length rather than chunks
		size, _ := m.WriteTo(io.Discard)
		e.w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	}
	return e.send(m)
}

// onIdle sends a keepalive on an idle stream. On a resumable stream that has sent no event
// yet, it sends the event ID to resume from instead. The specification asks for that at the
// start of a stream, but nearly all streams end before it would be useful.
func (e *eventWriter) onIdle(stream *agentStream) bool {
	if stream.replay == nil || e.begun || !stream.primes {
		return e.keepalive()
	}
	return e.send(e.first(sse.Message{ID: stream.prime().String()}))
}

// message sends raw as one event. An empty ID is omitted.
func (e *eventWriter) message(id string, raw []byte) bool {
	return e.send(e.event(id, raw))
}

// event returns the event of a message.
func (e *eventWriter) event(id string, raw []byte) sse.Message {
	return e.first(sse.Message{ID: id, Type: "message", Data: raw})
}

// first adds the retry delay to the first event with an ID.
func (e *eventWriter) first(m sse.Message) sse.Message {
	if m.ID != "" && !e.begun {
		e.begun = true
		m.Retry = resumeDelay
	}
	return m
}

func (e *eventWriter) keepalive() bool { return e.write([]byte(sse.KeepAlive)) }

func (e *eventWriter) write(raw []byte) bool { return e.send(bytes.NewReader(raw)) }

func (e *eventWriter) send(what io.WriterTo) bool {
	if e.broken {
		return false
	}
	_ = e.control.SetWriteDeadline(time.Now().Add(e.limit))
	if !e.sent {
		e.sent = true
		e.w.WriteHeader(e.status)
	}
	_, err := what.WriteTo(e.w)
	e.broken = err != nil || e.control.Flush() != nil
	return !e.broken
}

// close removes the write deadline so that the connection can be reused.
func (e *eventWriter) close() {
	if !e.broken {
		_ = e.control.SetWriteDeadline(time.Time{})
	}
}

// copy sends the messages of a stream until it is closed, and a keepalive whenever it has
// been idle for that long. It reports whether everything was sent.
func (e *eventWriter) copy(ctx context.Context, stream *agentStream, idle time.Duration) bool {
	for {
		it, how := stream.queue.next(ctx, idle)
		switch {
		case how == waitClosed:
			return true
		case how == waitCancelled:
			return false
		case how == waitIdle && !e.onIdle(stream):
			return false
		case how == waitItem:
			sent := e.next(stream, it)
			stream.queue.done(it)
			if !sent {
				return false
			}
		}
	}
}
