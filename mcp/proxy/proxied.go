package proxy

import (
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
	"github.com/waza-isolate/waza/internal/endtoend"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/sse"
	"github.com/waza-isolate/waza/mcp/transport"
)

// passThrough serves a server that speaks streamable HTTP itself.
type passThrough struct {
	*server
	dialogues *dialogues
}

// proxiedRequest is one request of the agent's on its way to a server that speaks HTTP,
// and the response on its way back. Bytes pass as they are; a copy is recorded.
type proxiedRequest struct {
	*passThrough
	ctx  context.Context // ends with the agent's request, the time limit, and the proxy
	w    http.ResponseWriter
	r    *http.Request
	call call
	d    *httpSession

	waiting   []*asked // what the response has to answer
	stateless bool     // of a revision without sessions
	resumable bool     // the response was a stream with event ids
}

// ServeHTTP hands a request on to the server.
func (s *passThrough) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !slices.Contains(passedMethods(), r.Method) {
		refuseMethod(w, strings.Join(passedMethods(), ", "))
		return
	}
	if defence.NoEncoding && endtoend.IsEncoded(r.Header) {
		http.Error(w, "Content-Encoding is not supported.", http.StatusUnsupportedMediaType)
		return
	}
	if defence.OneCharset && isRecoded(r.Header) {
		http.Error(w, "The body must be UTF-8.", http.StatusUnsupportedMediaType)
		return
	}
	s.withBody(w, r, func(raw []byte) {
		x := &proxiedRequest{passThrough: s, w: w, r: r}
		x.call = call{ctx: r.Context(), raw: raw, peer: peerOf(r)}
		var no *refusal
		x.call.env, no = s.readEnvelope(raw)
		if why := s.spend(x.call); why != "" {
			s.refuseSpent(w, x.call, why)
			return
		}
		if no != nil {
			s.refuse(w, x.call, *no)
			return
		}
		defer s.watch(x.call)()
		x.stateless = len(x.call.env.messages) > 0 && isSessionless(r.Header, x.call.env)
		x.run()
	})
}

// passedMethods are the HTTP methods that reach a server. TRACE is not among them: a
// server answers it with the request as it came, and so with the headers that the
// runner added; RFC 9110, section 9.3.8.
func passedMethods() []string {
	return []string{
		http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPatch, http.MethodPost, http.MethodPut,
	}
}

// readEnvelope reads what the agent sent. What it cannot read as one meaning goes on
// to the server all the same, as it is, unless that might be a call of a tool that
// the agent is not to have.
func (s *passThrough) readEnvelope(raw []byte) (envelope, *refusal) {
	if len(raw) == 0 {
		return envelope{}, nil
	}
	if defence.NoEncoding && s.tools != nil {
		return s.understand(raw)
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

func (x *proxiedRequest) run() {
	var err error
	if x.d, x.waiting, err = x.dialogues.join(x.r.Header.Get(headerSession), x.call.env); err != nil {
		x.refuse(x.w, x.call, *refusalFor(err))
		return
	}
	defer func() { x.dialogues.leave(x.d, x.waiting, x.resumable && !x.stateless) }()
	x.call.peer.Session = x.d.session
	if x.tools.hidden(x.call.raw, x.call.env) || x.tools.hiddenByHeader(x.r.Header, x.call.env) {
		x.refuseHidden(x.w, x.call, x.record)
		return
	}
	if defence.RecordedRequests && len(x.call.raw) > 0 {
		x.record(evidence.Frame{Dir: evidence.ToServer, Raw: x.call.raw, Peer: &x.call.peer})
	}
	cancel := x.limit()
	defer cancel(nil)
	if x.allowed.heard.over() {
		x.fail(transport.ErrFlooded)
		return
	}
	response, err := x.Upstream.Send(outgoing(x.ctx, x.Upstream, x.r, x.isOwnHost), x.call.raw)
	if err != nil {
		x.fail(err)
		return
	}
	defer func() { _ = response.Body.Close() }()
	x.answer(response)
}

// limit bounds x in time, but for streams that have no end of their own.
func (x *proxiedRequest) limit() context.CancelCauseFunc {
	ctx, cancel := context.WithCancelCause(x.r.Context())
	x.ctx = ctx
	stops := []func() bool{context.AfterFunc(x.proxy.serving, func() { cancel(ErrClosed) })}
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
	if response.StatusCode < http.StatusOK { // 101 answers what was not asked for; net/http panics at what is below 100
		x.fail(errStatus)
		return
	}
	initialize := len(x.call.env.messages) > 0 && x.call.env.isInitialize()
	x.dialogues.learn(x.d, x.r.Method, initialize, response)
	if s := response.StatusCode; s == http.StatusUnauthorized || s == http.StatusForbidden {
		x.events.Add("unauthorized", fmt.Sprintf("HTTP %d %s", s, http.StatusText(s)), map[string]any{"conn": x.d.conn})
	}
	if x.r.Method != http.MethodHead && endtoend.IsEncoded(response.Header) {
		x.events.Add("gap", transport.ErrEncoded.Error(), map[string]any{"conn": x.d.conn})
		x.fail(transport.ErrEncoded)
		return
	}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if kind == sse.ContentType && x.r.Method != http.MethodHead {
		x.stream(response)
		return
	}
	if kind == "application/json" && response.ContentLength < 0 {
		x.messages(response)
		return
	}
	body, err := transport.ReadBody(response.Body, response.ContentLength, x.Message, x.proxy.memory)
	defer body.Release()
	if err != nil {
		x.fail(err)
		return
	}
	x.whole(response, body)
}

// messages passes JSON on message by message, where its server does not tell how long it is: it
// may go on like a stream.
func (x *proxiedRequest) messages(response *http.Response) {
	in := transport.NewMessageReader(response.Body, x.Message, x.proxy.memory)
	var out *eventWriter // once something is out
	for more := true; more; {
		body, err := in.Next()
		raw := body.Bytes
		ended := errors.Is(err, io.EOF)
		if err == nil || ended && out != nil && len(jsontext.TrimSpace(raw)) > 0 {
			var refused error
			if raw, refused = x.hear(raw, response.StatusCode); refused != nil {
				err, ended = refused, false
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
			x.whole(response, body)
		case out == nil:
			x.fail(err)
		case (more || ended) && !out.write(raw):
			x.abandon()
			more = false
		case !more:
			x.cut(err)
		}
		body.Release()
	}
}

// whole passes a response on that has come to its end.
func (x *proxiedRequest) whole(response *http.Response, body *bounded.Buffer) {
	raw, err := x.hear(body.Bytes, response.StatusCode)
	if err != nil {
		x.fail(err)
		return
	}
	x.lose(evidence.SyntheticTransport, codeTransport, httpText(response.StatusCode, body.Bytes))
	copyHeaders(x.Upstream, x.w.Header(), response.Header)
	if len(raw) > 0 {
		x.w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	}
	control := http.NewResponseController(x.w)
	_ = control.SetWriteDeadline(time.Now().Add(x.proxy.limits.Write))
	x.w.WriteHeader(response.StatusCode)
	if _, err := x.w.Write(raw); err == nil && control.Flush() == nil {
		_ = control.SetWriteDeadline(time.Time{})
	}
}

// hear records the body of a response, and returns what of it the agent gets.
// What is no message is of no interest where the server says that it failed, or
// had nothing to answer. It fails where there is no room for the record, or where the server has
// sent all that it may.
func (x *proxiedRequest) hear(raw []byte, status int) ([]byte, error) {
	if len(raw) > 0 && !x.allowed.heard.take(1, int64(len(raw))) {
		return nil, transport.ErrFlooded
	}
	env, err := parse(raw)
	if err == nil {
		if err := x.keep(raw, x.isAsked(env)); err != nil {
			return nil, err
		}
		return x.heard(raw, env), nil
	}
	if len(raw) > 0 && status < 300 && len(x.waiting) > 0 {
		if err := x.keep(raw, false); err != nil {
			return nil, err
		}
		x.events.Add("gap", "the server answered with what is "+err.Error(), map[string]any{"conn": x.d.conn, "bytes": len(raw)})
		x.record(evidence.Frame{Dir: evidence.ToClient, Raw: raw})
	}
	return raw, nil
}

// isAsked says whether a message has nothing but answers that the agent waits for.
func (x *proxiedRequest) isAsked(env envelope) bool {
	return !slices.ContainsFunc(env.messages, func(m message) bool { return m.kind != response || !x.dialogues.awaits(x.d, m.id.Key) })
}

// heard records a message of the server's, and returns what of it the agent gets.
func (x *proxiedRequest) heard(raw []byte, env envelope) []byte {
	listed, injects := map[string]bool{}, map[string]injections{}
	for _, m := range env.of(response) {
		// An answer that nobody waits for may be one to tools/list all the same, sent
		// again where a stream is resumed.
		a := x.dialogues.answer(x.d, m.id.Key)
		if a == nil || a.method == methodListTools {
			listed[m.id.Key] = true
		}
		if a != nil && len(a.injects) > 0 {
			injects[m.id.Key] = a.injects
		}
	}
	return x.change(raw, env.batch, answers{
		lists:  func(key jsonrpc.ID) bool { return listed[key.Key] },
		called: func(key jsonrpc.ID) injections { return injects[key.Key] },
	}, x.record)
}

func (x *proxiedRequest) record(f evidence.Frame) {
	f.Server, f.Conn = x.Name, x.d.conn
	x.proxy.rec.Frame(f)
}

// isOwnHost says whether a Host is the one by which the agent found the server:
// its name, or the address that the proxy listens on.
func (x *proxiedRequest) isOwnHost(host string) bool {
	return hostName(host) == x.hostKey() || isListener(x.r, host)
}
