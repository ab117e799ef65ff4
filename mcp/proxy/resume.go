package proxy

import (
	"context"
	"errors"
)

// headerLastEvent names the last event an agent got of a stream that broke.
const headerLastEvent = "Last-Event-ID"

// ownStream is the number of the stream of a session that belongs to no request.
const ownStream = 0

var errNoEvent = errors.New("no stream can be resumed after this event")

// holder is the response that a feed is sent on.
type holder struct {
	end  context.CancelFunc
	gone chan struct{} // closed when it sends no more
}

// hold makes the caller the one who sends f, when whoever did has ended. The
// context ends when another takes over; release must be called.
func (l *link) hold(ctx context.Context, f *agentStream) (_ context.Context, release func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	mine := &holder{end: cancel, gone: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	for f.holder != nil {
		if err := l.await(ctx, f.holder); err != nil {
			cancel()
			return nil, nil, err
		}
	}
	f.holder = mine
	f.primes = l.version >= lastSessionVersion
	return ctx, func() { l.release(f, mine) }, nil
}

// await gives the lock up until h sends no more.
func (l *link) await(ctx context.Context, h *holder) error {
	h.end()
	l.mu.Unlock()
	defer l.mu.Lock()
	select {
	case <-h.gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *link) release(f *agentStream, h *holder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.end()
	f.holder = nil
	close(h.gone)
	if l.over && f == l.own {
		f.queue.discard()
	}
}

// leave is called when a response that sent ex is over.
func (l *link) leave(ex *exchange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ex.left = true
	if !ex.detached && ex.holder == nil {
		ex.queue.discard()
	}
	l.retire(ex)
}

// retire forgets ex when all that will be sent on its stream is in the journal.
func (l *link) retire(ex *exchange) {
	if ex.left && ex.holder == nil && len(ex.open) == 0 {
		delete(l.streams, ex.stream)
	}
}

// detach has what ex is still sent kept in the journal, where its agent can
// resume it, and says whether it can. l.mu is held.
func (l *link) detach(ex *exchange) bool {
	if !ex.agentStream.canResume() {
		return false
	}
	ex.detached = true
	for {
		it, how := ex.agentStream.queue.take()
		if how != took {
			return true
		}
		ex.agentStream.sending(it)
		ex.agentStream.queue.done(it)
	}
}

// resume makes the caller the one who sends a stream that broke, and returns what
// it must send first; ex is nil for the session's own stream and one that has
// ended.
func (l *link) resume(ctx context.Context, after eventID) (r resumption, err error) {
	r = resumption{ctx: ctx, release: func() {}, stream: l.own}
	if after.stream != ownStream {
		l.mu.Lock()
		r.ex = l.streams[after.stream]
		l.mu.Unlock()
		r.stream = nil
	}
	if r.ex != nil {
		r.stream = r.ex.agentStream
	}
	if r.stream != nil {
		if !r.stream.canResume() {
			return r, errNoEvent
		}
		if r.ctx, r.release, err = l.hold(ctx, r.stream); err != nil {
			return r, err
		}
	}
	if !l.reattach(&r, after) {
		r.release()
		if r.ex != nil {
			l.leave(r.ex)
		}
		return r, errNoEvent
	}
	return r, nil
}

// reattach has messages for r's stream wait for it again, those that came before
// being what it missed. It is false where the journal does not have them all.
func (l *link) reattach(r *resumption, after eventID) (known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.missed, known = l.journal.since(after, r.stream); known && r.ex != nil {
		r.ex.detached = false
	}
	return known
}

// resumption is a stream that goes on.
type resumption struct {
	ctx     context.Context
	release func()
	ex      *exchange    // nil for the session's own stream, and for one that has ended
	stream  *agentStream // nil for one that has ended
	missed  []sentEvent
}

// size is how many bytes it has missed.
func (r resumption) size() (n int64) {
	for _, e := range r.missed {
		n += int64(cap(e.raw))
	}
	return n
}
