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
	sent    bool // the headers are sent
	begun   bool // an event with an id was sent
	broken  bool
}

// retry is how long an agent waits before it resumes a stream.
const retry = time.Second

// openStream returns a writer of an event stream. Its headers are sent with the first write.
func openStream(w http.ResponseWriter, limit time.Duration) *eventWriter {
	h := w.Header()
	h.Set("Content-Type", sse.ContentType)
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	return newEventWriter(w, http.StatusOK, limit)
}

// newEventWriter returns a writer of a response with a status and the headers of w. They are
// sent with the first write.
func newEventWriter(w http.ResponseWriter, status int, limit time.Duration) *eventWriter {
	return &eventWriter{w: w, control: http.NewResponseController(w), limit: limit, status: status}
}

// start sends the headers alone, to an agent that waits for them.
func (e *eventWriter) start() { e.write(nil) }

// next sends the next message of a stream.
func (e *eventWriter) next(stream *agentStream, it item) bool {
	id := ""
	if stream.replay != nil {
		id = stream.sending(it).String()
	}
	m := e.event(id, it.raw)
	if it.last && !e.sent { // the whole response: it has a length in place of chunks
		size, _ := m.WriteTo(io.Discard)
		e.w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	}
	return e.send(m)
}

// silent shows the agent that the stream is alive. The first time, if the stream can be
// resumed, it also sends the event id to resume after. The specification asks for that at the
// beginning of a stream, but nearly all streams end before.
func (e *eventWriter) silent(stream *agentStream) bool {
	if stream.replay == nil || e.begun || !stream.primes {
		return e.keepalive()
	}
	return e.send(e.first(sse.Message{ID: stream.prime().String()}))
}

// message sends raw as one event, with an id where it is not "".
func (e *eventWriter) message(id string, raw []byte) bool {
	return e.send(e.event(id, raw))
}

// event returns the event of a message.
func (e *eventWriter) event(id string, raw []byte) sse.Message {
	return e.first(sse.Message{ID: id, Type: "message", Data: raw})
}

// first adds the time to wait before resuming to the first event of a stream that can be resumed.
func (e *eventWriter) first(m sse.Message) sse.Message {
	if m.ID != "" && !e.begun {
		e.begun = true
		m.Retry = retry
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

// close lifts the time limit, so that the connection can serve again.
func (e *eventWriter) close() {
	if !e.broken {
		_ = e.control.SetWriteDeadline(time.Time{})
	}
}

// copy sends the messages of a stream until that is closed, and a keepalive after each idle time of
// silence. It reports whether it sent all.
func (e *eventWriter) copy(ctx context.Context, stream *agentStream, idle time.Duration) bool {
	for {
		it, how := stream.queue.next(ctx, idle)
		switch {
		case how == waitClosed:
			return true
		case how == waitCancelled:
			return false
		case how == waitIdle && !e.silent(stream):
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
