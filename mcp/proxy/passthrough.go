package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/web"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/sse"
	"github.com/waza-isolate/waza/mcp/transport"
)

// passThrough serves a server that speaks streamable HTTP.
type passThrough struct {
	*server
	sessions *httpSessions
}

// proxiedRequest is one HTTP request from the agent to a server on streamable HTTP, with
// its response. Bytes are forwarded unchanged, and a copy is recorded.
type proxiedRequest struct {
	*passThrough
	ctx     context.Context // ends with the agent's request, the time limit or the proxy
	w       http.ResponseWriter
	r       *http.Request
	inbound inbound
	session *httpSession

	waiting   []*asked // requests that the response has to answer
	stateless bool     // of a protocol revision without sessions
	resumable bool     // the response was a stream with event ids
}

// ServeHTTP forwards a request to the server.
func (s *passThrough) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !slices.Contains(passedMethods(), r.Method) {
		refuseMethod(w, strings.Join(passedMethods(), ", "))
		return
	}
	if defence.NoEncoding && web.IsEncoded(r.Header) {
		http.Error(w, "Content-Encoding is not supported.", http.StatusUnsupportedMediaType)
		return
	}
	if defence.OneCharset && isRecoded(r.Header) {
		http.Error(w, "The body must be UTF-8.", http.StatusUnsupportedMediaType)
		return
	}
	s.receive(w, r, s.readEnvelope, func(in inbound) *refusal {
		x := &proxiedRequest{passThrough: s, w: w, r: r, inbound: in}
		x.stateless = len(in.env.messages) > 0 && isSessionless(r.Header, in.env)
		return x.run()
	})
}

// passedMethods returns the HTTP methods that are forwarded. TRACE is not: its response
// repeats the request (RFC 9110, section 9.3.8), including the headers that the runner
// added.
func passedMethods() []string {
	return []string{
		http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPatch, http.MethodPost, http.MethodPut,
	}
}

// readEnvelope parses a body from the agent. An unreadable or ambiguous body is still
// forwarded, unless tools are hidden from the agent, since it might call one of them.
func (s *passThrough) readEnvelope(raw []byte) (envelope, *refusal) {
	if len(raw) == 0 {
		return envelope{}, nil
	}
	if defence.NoEncoding && s.tools != nil {
		return s.parseStrict(raw)
	}
	env, err := parse(raw)
	if err != nil {
		s.events.Add("gap", "the agent sent what is "+err.Error(), map[string]any{"bytes": len(raw)})
		return envelope{}, nil
	}
	if env.ambiguous() {
		s.events.Add("gap", "the agent sent a message with a key twice or in other case", nil)
	}
	return env, nil
}

// run forwards the request to the server and answers the agent, or returns a refusal.
func (x *proxiedRequest) run() *refusal {
	var err error
	if x.session, x.waiting, err = x.sessions.join(x.r.Header.Get(headerSession), x.inbound.env); err != nil {
		return refusalFor(err)
	}
	defer func() { x.sessions.leave(x.session, x.waiting, x.resumable && !x.stateless) }()
	x.inbound.peer.Session = x.session.id
	if x.tools.callsHidden(x.inbound.raw, x.inbound.env) || x.tools.hiddenByHeader(x.r.Header, x.inbound.env) {
		x.refuseHidden(x.w, x.inbound, x.session.record)
		return nil
	}
	in := x.inbound
	if in.fault = faultOf(in, x.session.conversation, x.stateless); in.fault != nil {
		in.accepts = parseAccept(x.r.Header.Values("Accept"))
	}
	x.inbound = in
	if in.fault.refuses() {
		in.fault.refuse(x.w, in, nil)
		return nil
	}
	var over func()
	x.w, over = in.fault.begin(x.w, in)
	defer over()
	if defence.RecordedRequests && len(x.inbound.raw) > 0 {
		x.session.record(evidence.Frame{Dir: evidence.ToServer, Raw: x.inbound.raw, Peer: &x.inbound.peer, Fault: in.fault.name()})
	}
	cancel := x.limit()
	defer cancel(nil)
	if x.allowed.fromServer.over() {
		x.fail(transport.ErrFlooded)
		return nil
	}
	in.fault.keepBack(x.ctx)
	response, err := x.Upstream.Send(outgoing(x.ctx, x.Upstream, x.r, x.isOwnHost), x.inbound.raw)
	if err != nil {
		x.fail(err)
		return nil
	}
	defer func() { _ = response.Body.Close() }()
	x.answer(response)
	return nil
}

// limit applies the time limit to x, except for streams without an end.
func (x *proxiedRequest) limit() context.CancelCauseFunc {
	ctx, cancel := context.WithCancelCause(x.r.Context())
	x.ctx = ctx
	stops := []func() bool{context.AfterFunc(x.part.serving, func() { cancel(errClosed) })}
	if !x.isEndless() {
		stops = append(stops, time.AfterFunc(x.Timeout, func() { cancel(errOverdue) }).Stop)
	}
	return func(err error) {
		for _, stop := range stops {
			stop()
		}
		cancel(err)
	}
}

func (x *proxiedRequest) isEndless() bool {
	if x.r.Method == http.MethodGet {
		return true
	}
	for _, a := range x.waiting {
		if x.stateless && a.method == methodListen {
			return true
		}
	}
	return false
}

func (x *proxiedRequest) answer(response *http.Response) {
	if response.StatusCode < http.StatusOK { // 101 was not requested; net/http panics below 100
		x.fail(errStatus)
		return
	}
	initialize := len(x.inbound.env.messages) > 0 && x.inbound.env.isInitialize()
	x.sessions.learn(x.session, x.r.Method, initialize, response)
	if s := response.StatusCode; s == http.StatusUnauthorized || s == http.StatusForbidden {
		x.session.note("unauthorized", fmt.Sprintf("HTTP %d %s", s, http.StatusText(s)))
	}
	if x.r.Method != http.MethodHead && web.IsEncoded(response.Header) {
		x.session.note("gap", transport.ErrEncoded.Error())
		x.fail(transport.ErrEncoded)
		return
	}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if kind == sse.ContentType && x.r.Method != http.MethodHead {
		x.passStream(response)
		return
	}
	if kind == "application/json" && response.ContentLength < 0 {
		x.passMessages(response)
		return
	}
	body, err := transport.ReadBody(response.Body, response.ContentLength, x.Message, x.proxy.memory)
	defer body.Release()
	if err != nil {
		x.fail(err)
		return
	}
	x.passBody(response, body)
}

// passMessages forwards a JSON body of unknown length message by message, since it may be
// used as a stream.
func (x *proxiedRequest) passMessages(response *http.Response) {
	in := transport.NewMessageReader(response.Body, x.Message, x.proxy.memory)
	var out *eventWriter // set once something has been sent
	for more := true; more; {
		body, err := in.Next()
		raw := body.Bytes
		ended := errors.Is(err, io.EOF)
		message := bytes.TrimRight(raw, "\r\n")
		if len(jsontext.TrimSpace(raw)) == 0 {
			message = nil
		}
		lineEnd := raw[len(message):] // or other white space between messages
		if (err == nil || ended && out != nil) && len(raw) > 0 {
			seen, refused := x.recordPart(message, len(raw), response.StatusCode)
			if refused != nil {
				err, ended = refused, false
			} else if len(seen) != len(message) {
				raw = slices.Concat(seen, lineEnd)
			}
		}
		if err == nil && out == nil {
			copyHeaders(x.Upstream, x.w.Header(), response.Header)
			out = newEventWriter(x.w, response.StatusCode, x.proxy.limits.Write)
			defer out.close()
		}
		more = err == nil
		switch {
		case out == nil && ended:
			x.passBody(response, body)
		case out == nil:
			x.fail(err)
		case (more || ended) && !out.write(raw):
			x.abandon()
			more = false
		case !more:
			x.finish(nil, err)
		}
		body.Release()
	}
}

// recordPart records a message of a body like recordBody. White space without a message is counted
// but not recorded.
func (x *proxiedRequest) recordPart(message []byte, size, status int) ([]byte, error) {
	if message == nil {
		if !x.allowed.fromServer.take(0, int64(size)) {
			return nil, transport.ErrFlooded
		}
		return nil, nil
	}
	return x.recordBody(message, status)
}

// passBody forwards a response whose body has been read completely.
func (x *proxiedRequest) passBody(response *http.Response, body *bounded.Buffer) {
	expired := response.StatusCode == http.StatusNotFound && x.session.id != ""
	if expired { // regardless of the body
		x.recordUnanswered(evidence.SyntheticExpired, codeTransport, httpText(response.StatusCode, body.Bytes))
	}
	raw, err := x.recordBody(body.Bytes, response.StatusCode)
	if err != nil {
		x.fail(err)
		return
	}
	if !expired {
		x.recordUnanswered(evidence.SyntheticTransport, codeTransport, httpText(response.StatusCode, body.Bytes))
	}
	copyHeaders(x.Upstream, x.w.Header(), response.Header)
	if len(raw) > 0 {
		x.w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	}
	x.write(x.w, response.StatusCode, raw)
}

// recordBody records the body of a response, and returns the body for the agent. A body
// that is not a message is recorded only in a successful response to requests. It fails if
// the server has exceeded its allowance.
func (x *proxiedRequest) recordBody(raw []byte, status int) ([]byte, error) {
	if len(raw) > 0 && !x.allowed.fromServer.take(1, int64(len(raw))) {
		return nil, transport.ErrFlooded
	}
	env, err := hear(raw)
	if err == nil {
		return x.recordMessage(raw, env), nil
	}
	if len(raw) > 0 && status < 300 && len(x.waiting) > 0 {
		x.events.Add("gap", "the server answered with what is "+err.Error(), map[string]any{"conn": x.session.conn, "bytes": len(raw)})
		x.session.record(evidence.Frame{Dir: evidence.ToClient, Raw: raw})
	}
	return raw, nil
}

// recordMessage records a message from the server, and returns the message for the agent.
func (x *proxiedRequest) recordMessage(raw []byte, env envelope) []byte {
	listed, injects := map[string]bool{}, map[string]injections{}
	var made *fault
	for _, m := range env.of(response) {
		// An answer to no unanswered request may be a tools/list result repeated on a
		// resumed stream.
		a := x.sessions.answer(x.session, m.id)
		if a == nil || a.method == methodListTools {
			listed[m.id.Key] = true
		}
		if a != nil && len(a.injects) > 0 {
			injects[m.id.Key] = a.injects
		}
		if slices.Contains(x.waiting, a) {
			made = x.inbound.fault // the body is a single message
		}
	}
	return x.change(raw, env.batch, answers{
		lists:  func(key jsonrpc.ID) bool { return listed[key.Key] },
		called: func(key jsonrpc.ID) injections { return injects[key.Key] },
		fault:  made,
	}, x.session.record)
}

// isOwnHost reports whether a Host header names the server as the agent knows it: by its
// name or by the proxy's address.
func (x *proxiedRequest) isOwnHost(host string) bool {
	return hostName(host) == x.hostKey() || isListener(x.r, host)
}
