package proxy

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/transport"
)

// refusal is why a POST is not forwarded.
type refusal struct {
	status int // HTTP
	code   int // JSON-RPC
	text   string
}

// post takes one message of the agent, or one batch.
func (s *server) post(w http.ResponseWriter, r *http.Request) {
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

// withBody reads a request's body and has handle work on it, unless the body is
// over a limit or the proxy is closed, which it answers itself.
func (s *server) withBody(w http.ResponseWriter, r *http.Request, handle func(raw []byte)) {
	body, ok := s.readPost(w, r)
	defer body.Release()
	if !ok {
		return
	}
	if !s.proxy.begin() {
		http.Error(w, ErrClosed.Error(), http.StatusServiceUnavailable)
		return
	}
	defer s.proxy.handlers.Done()
	handle(body.Bytes)
}

// understand reads a body. What cannot be read as one meaning is not forwarded:
// a server that reads it otherwise would do what the record does not show.
func (s *server) understand(raw []byte) (envelope, *refusal) {
	env, err := parse(raw)
	switch {
	case errors.Is(err, jsonrpc.ErrNotJSON):
		s.events.Add("gap", "the agent sent what is not JSON", map[string]any{"bytes": len(raw)})
		return envelope{}, &refusal{http.StatusBadRequest, codeParse, "Parse error: the body is not JSON"}
	case err != nil:
		s.events.Add("gap", "the agent sent what is "+err.Error(), nil)
		return envelope{}, &refusal{http.StatusBadRequest, codeInvalidRequest, "Invalid request: the body is " + err.Error()}
	case env.ambiguous():
		s.events.Add("gap", "the agent sent a message with a key twice or in other case", nil)
		return env, &refusal{http.StatusBadRequest, codeInvalidRequest, "Invalid request: a key of the envelope is there twice or in other case"}
	case repeatsID(env):
		return env, &refusal{http.StatusBadRequest, codeInvalidRequest, "Invalid request: two requests of the batch have one id"}
	}
	return env, nil
}

func repeatsID(env envelope) bool {
	seen := map[string]bool{}
	for _, m := range env.of(request) {
		if seen[m.id.Key] {
			return true
		}
		seen[m.id.Key] = true
	}
	return false
}

// forward sends the call to the process it is for and answers the agent, unless
// it returns a refusal.
func (s *server) forward(w http.ResponseWriter, r *http.Request, c call) *refusal {
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
func (s *server) linkFor(r *http.Request, c call) (*link, *refusal) {
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
func (s *server) tell(w http.ResponseWriter, l *link, c call) *refusal {
	if err := l.tell(c); err != nil {
		no := refusalFor(err)
		s.writeJSON(w, no.status, errorResponse(nil, no.code, no.text))
		return nil // it is on record already
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// refuse answers a call that reaches no server, and records both where an
// HTTP client sees an error in place of an answer.
func (s *server) refuse(w http.ResponseWriter, c call, no refusal) {
	s.refused.Lock()
	s.recordRefused(evidence.Frame{Dir: evidence.ToServer, Raw: c.raw, Peer: &c.peer})
	asked := c.env.of(request)
	answer := errorResponse(nil, no.code, no.text)
	for _, m := range asked {
		answer = errorResponse(m.id.Raw, no.code, no.text)
		s.recordRefused(evidence.Frame{Dir: evidence.ToClient, Raw: answer, Synthetic: evidence.SyntheticTransport})
	}
	s.refused.Unlock()
	if len(asked) > 1 {
		answer = errorResponse(nil, no.code, no.text)
	}
	s.writeJSON(w, no.status, answer)
}

func (s *server) recordRefused(f evidence.Frame) {
	f.Server, f.Conn = s.Name, s.refusedConn()
	s.proxy.rec.Frame(f)
}

// respond answers the requests of ex: with one JSON body where the first thing
// the server says completes them, else with a stream.
func (s *server) respond(w http.ResponseWriter, r *http.Request, l *link, ex *exchange, c call) {
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
func (s *server) firstItem(ctx context.Context, ex *exchange, a accepts) (item, wait) {
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
func (s *server) joined(it item, answers [][]byte) (item, wait) {
	size := int64(len(answers) + 1)
	for _, raw := range answers {
		size += int64(len(raw))
	}
	if !s.proxy.memory.Take(size) {
		s.events.Add("limit", "the answers to a batch are "+transport.ErrNoMemory.Error(), nil)
		return item{held: it.held}, closed
	}
	it.held += size
	it.raw = append(make([]byte, 0, size), '[')
	for i, raw := range answers {
		if i > 0 {
			it.raw = append(it.raw, ',')
		}
		it.raw = append(it.raw, raw...)
	}
	it.raw = append(it.raw, ']')
	return it, took
}

func (s *server) stream(w http.ResponseWriter, r *http.Request, l *link, ex *exchange, first item, how wait) {
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

func (s *server) writeJSON(w http.ResponseWriter, status int, raw []byte) {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(s.proxy.limits.Write))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	w.WriteHeader(status)
	if _, err := w.Write(raw); err == nil && control.Flush() == nil {
		_ = control.SetWriteDeadline(time.Time{})
	}
}
