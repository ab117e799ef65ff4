package proxy

import (
	"context"
	"errors"
)

// headerLastEvent is the header with the last event that an agent received of a broken stream.
const headerLastEvent = "Last-Event-ID"

// ownStream is the number of a session's stream for messages that belong to no request.
const ownStream = 0

var errNoEvent = errors.New("no stream can be resumed after this event")

// holder is the HTTP response that an agentStream is being sent on.
type holder struct {
	end  context.CancelFunc
	gone chan struct{} // closed when it sends no more
}

// hold makes the caller the holder of a stream, after the previous one has ended. The context it
// returns ends when another caller takes over; release must be called.
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

// await releases the lock until h has ended.
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

// leave is called when a response with the stream of ex is over.
func (s *stdioSession) leave(ex *exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ex.left = true
	if !ex.detached && ex.holder == nil {
		ex.queue.discard()
	}
	s.retire(ex)
}

// retire forgets ex once all that will be sent on its stream is in the replay buffer.
func (s *stdioSession) retire(ex *exchange) {
	if ex.left && ex.holder == nil && len(ex.open) == 0 {
		delete(s.streams, ex.stream)
	}
}

// detach makes messages for ex go to the replay buffer, from which the agent can resume the
// stream. It reports whether the agent can. The caller holds mu.
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

// resume makes the caller the holder of a broken stream, and returns what it must send first.
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

// reattach makes messages for r's stream wait in its queue again, and sets what r missed. It is
// false if the replay buffer does not have all of that.
func (s *stdioSession) reattach(r *resumption, after eventID) (known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.missed, known = s.replay.since(after, r.stream); known && r.ex != nil {
		r.ex.detached = false
	}
	return known
}

// resumption is a stream that is resumed.
type resumption struct {
	ctx     context.Context
	release func()
	ex      *exchange    // nil for the session's own stream, and for one that has ended
	stream  *agentStream // nil for one that has ended
	missed  []sentEvent
}

// size returns how many bytes were missed.
func (r resumption) size() (n int64) {
	for _, e := range r.missed {
		n += int64(cap(e.raw))
	}
	return n
}
