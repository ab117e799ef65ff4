package proxy

import (
	"context"
	"errors"
	"net/http"

	"github.com/waza-isolate/waza/mcp/transport"
)

// post takes one message of the agent, or one batch.
func (s *bridge) post(w http.ResponseWriter, r *http.Request) {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		http.Error(w, "Content-Encoding is not supported.", http.StatusUnsupportedMediaType)
		return
	}
	accepts := parseAccept(r.Header.Values("Accept"))
	if !accepts.json && !accepts.stream {
		http.Error(w, "A POST must accept application/json and text/event-stream.", http.StatusNotAcceptable)
		return
	}
	s.withBody(w, r, func(raw []byte) {
		c := call{ctx: r.Context(), raw: raw, peer: peerOf(r), accepts: accepts}
		var no *refusal
		c.env, no = s.understand(c.raw)
		if why := s.spend(c); why != "" {
			s.refuseSpent(w, c, why)
			return
		}
		defer s.watch(c)()
		if no == nil {
			no = s.forward(w, r, c)
		}
		if no != nil {
			s.refuse(w, c, *no)
		}
	})
}

// forward sends the call to the process it is for and answers the agent, unless
// it returns a refusal.
func (s *bridge) forward(w http.ResponseWriter, r *http.Request, c call) *refusal {
	l, no := s.linkFor(r, c)
	if no != nil {
		return no
	}
	c.peer.Session = l.session
	if s.tools.hidden(c.raw, c.env) {
		s.refuseHidden(w, c, l.record)
		return nil
	}
	if len(c.env.of(request)) == 0 {
		return s.tell(w, l, c)
	}
	ex, err := l.open(c)
	if err != nil {
		if c.env.isInitialize() && !l.isShared() {
			s.endSession(l)
		}
		return refusalFor(err)
	}
	defer l.leave(ex)
	l.ask(ex, c)
	s.respond(w, r, l, ex, c)
	return nil
}

// linkFor finds the link that a message belongs to. An initialize starts a new session; a
// request without a session uses the shared process.
func (s *bridge) linkFor(r *http.Request, c call) (*link, *refusal) {
	if isSessionless(r.Header, c.env) {
		if no := s.checkSessionless(r.Header, c); no != nil {
			return nil, no
		}
		l, err := s.sharedLink()
		return l, refusalFor(err)
	}
	if r.Header.Get(headerSession) == "" && c.env.isInitialize() {
		l, err := s.newSession()
		return l, refusalFor(err)
	}
	l, status, text := s.sessionOf(r)
	if l == nil {
		return nil, &refusal{status, codeInvalidRequest, text}
	}
	return l, nil
}

func refusalFor(err error) *refusal {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errBusy), errors.Is(err, errInUse):
		return &refusal{http.StatusTooManyRequests, codeTransport, err.Error()}
	case errors.Is(err, errSessions), errors.Is(err, errLaunches), errors.Is(err, transport.ErrNoMemory):
		return &refusal{http.StatusServiceUnavailable, codeTransport, err.Error()}
	case errors.Is(err, errTimeout):
		return &refusal{http.StatusGatewayTimeout, codeTimeout, err.Error()}
	default:
		return &refusal{http.StatusBadGateway, codeTransport, err.Error()}
	}
}

// tell forwards what has no answer.
func (s *bridge) tell(w http.ResponseWriter, l *link, c call) *refusal {
	if err := l.tell(c); err != nil {
		no := refusalFor(err)
		s.writeJSON(w, no.status, errorResponse(nil, no.code, no.text))
		return nil // it is on record already
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// respond answers the requests of ex: with one JSON body where the first thing
// the server says completes them, else with a stream.
func (s *bridge) respond(w http.ResponseWriter, r *http.Request, l *link, ex *exchange, c call) {
	first, how := s.firstItem(r.Context(), ex, c.accepts)
	defer func() { ex.queue.done(first) }()
	if c.env.isInitialize() && !l.isShared() && r.Header.Get(headerSession) == "" {
		if how == left || how == closed || first.last && first.failed {
			s.endSession(l)
		} else {
			w.Header().Set(headerSession, l.session)
		}
	}
	switch {
	case how == left:
		l.abandon(ex)
	case how == closed:
		s.writeJSON(w, http.StatusServiceUnavailable, errorResponse(nil, codeTransport, "the answer is lost"))
	case first.last && c.accepts.json && !first.streams(c.accepts):
		s.writeJSON(w, first.httpStatus(), first.raw)
	default:
		s.stream(w, r, l, ex, first, how)
	}
}

// firstItem waits for what decides the form of the response. An agent that takes
// no stream gets answers only, all at once: several to a batch become an array.
func (s *bridge) firstItem(ctx context.Context, ex *exchange, a accepts) (item, wait) {
	var answers [][]byte
	var held int64
	for {
		it, how := ex.queue.next(ctx, s.proxy.limits.Idle)
		held += it.held
		it.held = held
		switch {
		case a.stream, how == left, how == closed:
			return it, how
		case how == took:
			answers = append(answers, it.raw)
		}
		if it.last && len(answers) > 1 {
			return s.joined(it, answers)
		}
		if it.last {
			return it, how
		}
	}
}

// joined is the last of several answers with all of them in a batch.
func (s *bridge) joined(it item, answers [][]byte) (item, wait) {
	size := int64(batchSize(answers))
	if !s.proxy.memory.Take(size) {
		s.events.Add("limit", "the answers to a batch are "+transport.ErrNoMemory.Error(), nil)
		return item{held: it.held}, closed
	}
	it.held += size
	it.raw = batchOf(answers)
	return it, took
}

func (s *bridge) stream(w http.ResponseWriter, r *http.Request, l *link, ex *exchange, first item, how wait) {
	ctx, release, err := l.hold(r.Context(), ex.agentStream)
	if err != nil {
		l.abandon(ex)
		return
	}
	defer release()
	stream := openStream(w, s.proxy.limits.Write)
	defer stream.close()
	begun := how == took && stream.next(ex.agentStream, first) || how == idled && stream.silent(ex.agentStream)
	if !begun || !stream.copy(ctx, ex.agentStream, s.proxy.limits.Idle) {
		l.abandon(ex)
	}
}
