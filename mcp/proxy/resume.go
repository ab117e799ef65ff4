package proxy

import (
	"context"
	"errors"
)

// headerLastEvent is the header with the ID of the last event received on a broken stream.
const headerLastEvent = "Last-Event-ID"

// ownStream is the number of a session's stream of messages that belong to no request.
const ownStream = 0

var errNoEvent = errors.New("no stream can be resumed after this event")

// holder is the HTTP response on which an agentStream is being sent.
type holder struct {
	end  context.CancelFunc
	gone chan struct{} // closed when it has stopped sending
}

// hold makes the caller the holder of a stream once the previous holder has stopped. The
// returned context ends when another caller takes over. The caller must call release.
func (s *stdioSession) hold(ctx context.Context, stream *agentStream) (_ context.Context, release func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	mine := &holder{end: cancel, gone: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	for stream.holder != nil {
		if err := s.await(ctx, stream.holder); err != nil {
			cancel()
			return nil, nil, err
		}
	}
	stream.holder = mine
	stream.primes = s.version >= lastSessionVersion
	return ctx, func() { s.release(stream, mine) }, nil
}

// await releases the lock until h has stopped sending.
func (s *stdioSession) await(ctx context.Context, h *holder) error {
	h.end()
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-h.gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *stdioSession) release(stream *agentStream, h *holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.end()
	stream.holder = nil
	close(h.gone)
	if s.over && stream == s.own {
		stream.queue.discard()
	}
}

// leave is called when the response with the stream of ex has ended.
func (s *stdioSession) leave(ex *exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ex.left = true
	if !ex.detached && ex.holder == nil {
		ex.queue.discard()
	}
	s.retire(ex)
}

// retire removes ex once everything sent on its stream is in the replay buffer.
func (s *stdioSession) retire(ex *exchange) {
	if ex.left && ex.holder == nil && len(ex.open) == 0 {
		delete(s.streams, ex.stream)
	}
}

// detach redirects the messages of ex to the replay buffer, from which the agent can resume
// the stream. It reports whether the agent can do so. The caller holds mu.
func (s *stdioSession) detach(ex *exchange) bool {
	if !ex.agentStream.canResume() {
		return false
	}
	ex.detached = true
	for {
		it, how := ex.agentStream.queue.take()
		if how != waitItem {
			return true
		}
		ex.agentStream.sending(it)
		ex.agentStream.queue.done(it)
	}
}

// resume makes the caller the holder of a broken stream, and returns the events that it
// missed.
func (s *stdioSession) resume(ctx context.Context, after eventID) (r resumption, err error) {
	r = resumption{ctx: ctx, release: func() {}, stream: s.own}
	if after.stream != ownStream {
		s.mu.Lock()
		r.ex = s.streams[after.stream]
		s.mu.Unlock()
		r.stream = nil
	}
	if r.ex != nil {
		r.stream = r.ex.agentStream
	}
	if r.stream != nil {
		if !r.stream.canResume() {
			return r, errNoEvent
		}
		if r.ctx, r.release, err = s.hold(ctx, r.stream); err != nil {
			return r, err
		}
	}
	if !s.reattach(&r, after) {
		r.release()
		if r.ex != nil {
			s.leave(r.ex)
		}
		return r, errNoEvent
	}
	return r, nil
}

// reattach directs the messages of r's stream to its queue again, and sets r.missed. It
// returns false if the replay buffer does not have all the missed events.
func (s *stdioSession) reattach(r *resumption, after eventID) (known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.missed, known = s.replay.since(after, r.stream); known && r.ex != nil {
		r.ex.detached = false
	}
	return known
}

// resumption is a stream that is being resumed.
type resumption struct {
	ctx     context.Context
	release func()
	ex      *exchange    // nil for the session's own stream and for an ended one
	stream  *agentStream // nil if it has ended
	missed  []sentEvent
}

// size returns the number of bytes missed.
func (r resumption) size() (n int64) {
	for _, e := range r.missed {
		n += int64(cap(e.raw))
	}
	return n
}
