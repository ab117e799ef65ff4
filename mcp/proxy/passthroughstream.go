package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/sse"
	"github.com/waza-isolate/waza/mcp/transport"
)

// passStream forwards an event stream event by event, and sends a keepalive comment
// whenever the server is idle.
func (x *proxiedRequest) passStream(response *http.Response) {
	copyHeaders(x.Upstream, x.w.Header(), response.Header)
	out := newEventWriter(x.w, response.StatusCode, x.proxy.limits.Write)
	defer out.close()
	out.start()
	source := x.readEvents(response.Body)
	defer func() {
		_ = response.Body.Close() // ends the reader
		source.discard()
	}()
	idle := time.NewTimer(x.proxy.limits.Idle)
	defer idle.Stop()
	for {
		idle.Reset(x.proxy.limits.Idle)
		select {
		case e, more := <-source.events:
			if !more {
				x.finish(out, source.err)
				return
			}
			if !x.allowed.takeEvent(e) {
				e.Release()
				x.finish(out, transport.ErrFlooded)
				return
			}
			ok := out.write(x.recordEvent(e))
			e.Release()
			if !ok {
				x.abandon()
				return
			}
		case <-idle.C:
			if !out.keepalive() {
				x.abandon()
				return
			}
		case <-x.ctx.Done():
			x.finish(out, context.Cause(x.ctx))
			return
		}
	}
}

// source reads an event stream in its own goroutine.
type source struct {
	events chan transport.Event
	stop   chan struct{}
	err    error // why the stream ended; set before events is closed
}

func (x *proxiedRequest) readEvents(body io.Reader) *source {
	s := &source{events: make(chan transport.Event), stop: make(chan struct{})}
	in := transport.NewEventReader(body, x.Message, x.proxy.memory)
	go func() {
		defer close(s.events)
		for {
			e, err := in.Next()
			if err != nil {
				s.err = err
				return
			}
			select {
			case s.events <- e:
			case <-s.stop:
				e.Release()
				return
			}
		}
	}()
	return s
}

// discard stops the reader, whose body must be closed, and releases the remaining events.
func (s *source) discard() {
	close(s.stop)
	for e := range s.events {
		e.Release()
	}
}

// recordEvent records the message in an event, and returns the event for the agent.
func (x *proxiedRequest) recordEvent(e transport.Event) []byte {
	if x.inbound.fault.hides() && e.HasID { // with an id, the agent could resume the stream and get the hidden answer
		var plain bytes.Buffer
		if len(e.Data) > 0 {
			_, _ = sse.Message{Type: string(e.Type), Data: e.Data}.WriteTo(&plain) // it never fails
		}
		e.Event, e.Raw = sse.Parse(plain.Bytes()), plain.Bytes()
	}
	x.resumable = x.resumable || e.HasID
	if len(e.Data) == 0 {
		return e.Raw
	}
	env, err := hear(e.Data)
	switch {
	case err != nil && e.IsMessage():
		x.events.Add("gap", "the server sent an event that is "+err.Error(), map[string]any{"conn": x.session.conn, "bytes": len(e.Data)})
		x.session.record(evidence.Frame{Dir: evidence.ToClient, Raw: e.Data})
		return e.Raw
	case err != nil:
		return e.Raw // no client reads it as a message
	case !e.IsMessage():
		x.session.note("gap", "the server sent a message in an event of type "+transport.Clip(e.Type))
	}
	if seen := x.recordMessage(e.Data, env); len(seen) != len(e.Data) {
		return e.WithData(seen)
	}
	return e.Raw
}

// finish answers the unanswered requests of a partly sent response with an error, unless
// they may still be answered on a resumed stream. If stream is nil the answers are only
// recorded.
func (x *proxiedRequest) finish(stream *eventWriter, err error) {
	cause := x.reason(err)
	ended := errors.Is(cause, io.EOF) || errors.Is(cause, io.ErrUnexpectedEOF)
	switch {
	case errors.Is(cause, errDisconnected):
		x.abandon()
		return
	case errors.Is(cause, errClosed):
		x.abandon()
	case errors.Is(cause, io.ErrUnexpectedEOF) && stream != nil:
		x.session.note("undelivered", "the server's stream ended inside an event")
	}
	if ended && x.resumable && !x.stateless {
		return // the agent may resume the stream
	}
	if ended {
		cause = errNoAnswer
	}
	_, code, why := x.classify(cause)
	for _, raw := range x.recordUnanswered(why, code, x.describe(cause)) {
		if !ended && stream != nil {
			stream.message("", raw)
		}
	}
	x.resumable = false
}
