package proxy

import (
	"context"
	"errors"
	"net/http"

	"github.com/waza-isolate/waza/internal/web"
	"github.com/waza-isolate/waza/mcp/transport"
)

// post handles a POST with one message from the agent, or a batch.
func (b *bridge) post(w http.ResponseWriter, r *http.Request) {
	if web.IsEncoded(r.Header) {
		http.Error(w, "Content-Encoding is not supported.", http.StatusUnsupportedMediaType)
		return
	}
	accepts := parseAccept(r.Header.Values("Accept"))
	if !accepts.json && !accepts.stream {
		http.Error(w, "A POST must accept application/json and text/event-stream.", http.StatusNotAcceptable)
		return
	}
	b.receive(w, r, b.parseStrict, func(in inbound) *refusal {
		in.accepts = accepts
		return b.forward(w, r, in)
	})
}

// forward sends the messages to the server and answers the agent, or returns a refusal.
func (b *bridge) forward(w http.ResponseWriter, r *http.Request, in inbound) *refusal {
	s, no := b.sessionFor(r, in)
	if no != nil {
		return no
	}
	in.peer.Session = s.name()
	if b.tools.callsHidden(in.raw, in.env) {
		b.refuseHidden(w, in, s.record)
		return nil
	}
	if in.fault = faultOf(in, s.conversation, isSessionless(r.Header, in.env)); in.fault.refuses() {
		in.fault.refuse(w, in, s.kill)
		return nil
	}
	w, over := in.fault.begin(w, in)
	defer over()
	if len(in.env.of(request)) == 0 {
		return b.forwardNotice(w, s, in)
	}
	ex, err := s.open(in)
	if err != nil {
		if in.env.isInitialize() && !s.isShared() {
			b.endSession(s)
		}
		return refusalFor(err)
	}
	defer s.leave(ex)
	in.fault.keepBack(ex.ctx)
	s.sendRequests(ex, in)
	b.respond(w, r, s, ex, in)
	return nil
}

// sessionFor returns the session of a message. An initialize request starts a new one;
// messages of revisions without sessions use the shared one.
func (b *bridge) sessionFor(r *http.Request, in inbound) (*stdioSession, *refusal) {
	if isSessionless(r.Header, in.env) {
		if no := b.checkSessionless(r.Header, in); no != nil {
			return nil, no
		}
		s, err := b.sharedSession()
		return s, refusalFor(err)
	}
	if r.Header.Get(headerSession) == "" && in.env.isInitialize() {
		s, err := b.newSession()
		return s, refusalFor(err)
	}
	s, status, text := b.sessionOf(r)
	if s == nil {
		return nil, &refusal{status: status, code: codeInvalidRequest, text: text}
	}
	return s, nil
}

func refusalFor(err error) *refusal {
	if err == nil {
		return nil
	}
	no := &refusal{http.StatusBadGateway, codeTransport, err.Error(), err}
	switch {
	case errors.Is(err, errBusy), errors.Is(err, errInUse):
		no.status = http.StatusTooManyRequests
	case errors.Is(err, errSessions), errors.Is(err, errLaunches), errors.Is(err, transport.ErrNoMemory):
		no.status = http.StatusServiceUnavailable
	case errors.Is(err, errTimeout):
		no.status, no.code = http.StatusGatewayTimeout, codeTimeout
	}
	return no
}

// forwardNotice forwards a POST without requests, which gets no answer.
func (b *bridge) forwardNotice(w http.ResponseWriter, s *stdioSession, in inbound) *refusal {
	if err := s.sendNotice(in); err != nil {
		no := refusalFor(err)
		b.writeJSON(w, no.status, errorResponse(nil, no.code, no.text))
		return nil // already recorded
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// respond answers the requests of ex: with a JSON body if the first message from the server
// completes them, otherwise with a stream.
func (b *bridge) respond(w http.ResponseWriter, r *http.Request, s *stdioSession, ex *exchange, in inbound) {
	first, how := b.firstItem(r.Context(), ex, in.accepts)
	defer func() { ex.queue.done(first) }()
	if in.env.isInitialize() && !s.isShared() && r.Header.Get(headerSession) == "" {
		if how == waitCancelled || how == waitClosed || first.last && first.failed {
			b.endSession(s)
		} else {
			w.Header().Set(headerSession, s.id)
		}
	}
	switch {
	case how == waitCancelled:
		s.abandon(ex)
	case how == waitClosed:
		b.writeJSON(w, http.StatusServiceUnavailable, errorResponse(nil, codeTransport, "the answer is lost"))
	case first.last && in.accepts.json && !first.streams(in.accepts):
		b.writeJSON(w, first.httpStatus(), first.raw)
	default:
		b.stream(w, r, s, ex, first, how)
	}
}

// firstItem waits for the message that decides the form of the response. For an agent that
// does not accept streams it collects all answers; those to a batch become an array.
func (b *bridge) firstItem(ctx context.Context, ex *exchange, a accepts) (item, waitResult) {
	var answers [][]byte
	var held int64
	for {
		it, how := ex.queue.next(ctx, b.proxy.limits.Idle)
		held += it.held
		it.held = held
		switch {
		case a.stream, how == waitCancelled, how == waitClosed:
			return it, how
		case how == waitItem:
			answers = append(answers, it.raw)
		}
		if it.last && len(answers) > 1 {
			return b.joined(it, answers)
		}
		if it.last {
			return it, how
		}
	}
}

// joined returns the last of several answers as a batch of them all.
func (b *bridge) joined(it item, answers [][]byte) (item, waitResult) {
	size := int64(batchSize(answers))
	if !b.proxy.memory.Take(size) {
		b.events.Add("limit", "the answers to a batch are "+transport.ErrNoMemory.Error(), nil)
		return item{held: it.held}, waitClosed
	}
	it.held += size
	it.raw = batchOf(answers)
	return it, waitItem
}

func (b *bridge) stream(w http.ResponseWriter, r *http.Request, s *stdioSession, ex *exchange, first item, how waitResult) {
	ctx, release, err := s.hold(r.Context(), ex.agentStream)
	if err != nil {
		s.abandon(ex)
		return
	}
	defer release()
	stream := openStream(w, b.proxy.limits.Write)
	defer stream.close()
	begun := how == waitItem && stream.next(ex.agentStream, first) || how == waitIdle && stream.onIdle(ex.agentStream)
	if !begun || !stream.copy(ctx, ex.agentStream, b.proxy.limits.Idle) {
		s.abandon(ex)
	}
}
