package mcpproxy

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/waza-isolate/waza/runner/evidence"
)

// Why the proxy ends a request to a server that speaks HTTP.
var (
	errOverdue = errors.New("no answer in time")
	errLeft    = errors.New("the agent left")
	errEncoded = errors.New("its response has a Content-Encoding, which it was asked not to use")
)

// passage is one request of the agent's on its way to a server that speaks HTTP,
// and the response on its way back. Bytes pass as they are; a copy is recorded.
type passage struct {
	*server
	ctx  context.Context // ends with the agent's request, the time limit, and the proxy
	w    http.ResponseWriter
	r    *http.Request
	call call
	d    *dialogue

	waiting   []*asked // what the response has to answer
	stateless bool     // of a revision without sessions
	resumable bool     // the response was a stream with event ids
	started   bool     // the response's headers are out
}

// pass hands a request on to a server that speaks HTTP.
func (s *server) pass(w http.ResponseWriter, r *http.Request) {
	if isEncoded(r.Header) {
		http.Error(w, "Content-Encoding is not supported.", http.StatusUnsupportedMediaType)
		return
	}
	body, ok := s.readPost(w, r)
	defer body.release()
	if !ok {
		return
	}
	if !s.proxy.begin() {
		http.Error(w, ErrClosed.Error(), http.StatusServiceUnavailable)
		return
	}
	defer s.proxy.handlers.Done()

	x := &passage{server: s, w: w, r: r}
	x.call = call{ctx: r.Context(), raw: body.buf, peer: peerOf(r)}
	x.call.env = s.readEnvelope(body.buf)
	x.stateless = len(x.call.env.messages) > 0 && isSessionless(r.Header, x.call.env)
	x.run()
}

// readEnvelope reads what the agent sent. What it cannot read goes on to the
// server all the same, as it is.
func (s *server) readEnvelope(raw []byte) envelope {
	if len(raw) == 0 {
		return envelope{}
	}
	env, err := parse(raw)
	if err != nil {
		s.notes.add("gap", "the agent sent what is "+err.Error(), map[string]any{"bytes": len(raw)})
		return envelope{}
	}
	if env.ambiguous() {
		s.notes.add("gap", "the agent sent a message with a key twice or in other case", nil)
	}
	return env
}

func (x *passage) run() {
	var err error
	if x.d, x.waiting, err = x.dialogues.join(x.r.Header.Get(headerSession), x.call.env); err != nil {
		x.refuse(x.w, x.call, *refusalFor(err))
		return
	}
	defer func() { x.dialogues.leave(x.d, x.waiting, x.resumable && !x.stateless) }()
	if len(x.call.raw) > 0 {
		peer := x.call.peer
		peer.Session = x.d.session
		x.record(evidence.Frame{Dir: evidence.ToServer, Raw: x.call.raw, Peer: &peer})
	}
	cancel := x.limit()
	defer cancel(nil)
	response, err := x.Upstream.send(x.Upstream.outgoing(x.ctx, x.r, x.call.raw, x.isOwnHost), x.call.raw)
	if err != nil {
		x.fail(err)
		return
	}
	defer func() { _ = response.Body.Close() }()
	x.answer(response)
}

// limit bounds x in time, but for streams that have no end of their own.
func (x *passage) limit() context.CancelCauseFunc {
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

func (x *passage) isEndless() bool {
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

func (x *passage) answer(response *http.Response) {
	initialize := len(x.call.env.messages) > 0 && x.call.env.isInitialize()
	x.dialogues.learn(x.d, x.r.Method, initialize, response)
	if x.r.Method != http.MethodHead && isEncoded(response.Header) {
		x.notes.add("gap", errEncoded.Error(), map[string]any{"conn": x.d.conn})
		x.fail(errEncoded)
		return
	}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if kind == "text/event-stream" && x.r.Method != http.MethodHead {
		x.stream(response)
		return
	}
	x.whole(response)
}

// whole passes a response on that is no stream.
func (x *passage) whole(response *http.Response) {
	body, err := readBody(response.Body, x.proxy.limits.Message, x.proxy.memory)
	defer body.release()
	if err != nil {
		x.fail(err)
		return
	}
	raw := x.hear(body.buf, response.StatusCode)
	x.lose(evidence.SyntheticTransport, codeTransport, httpText(response.StatusCode, body.buf))
	x.Upstream.copyHeaders(x.w.Header(), response.Header)
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
// had nothing to answer.
func (x *passage) hear(raw []byte, status int) []byte {
	env, err := parse(raw)
	if err == nil {
		return x.heard(raw, env)
	}
	if len(raw) > 0 && status < 300 && len(x.waiting) > 0 {
		x.notes.add("gap", "the server answered with what is "+err.Error(), map[string]any{"conn": x.d.conn, "bytes": len(raw)})
		x.record(evidence.Frame{Dir: evidence.ToClient, Raw: raw})
	}
	return raw
}

// heard records a message of the server's, and returns what of it the agent gets.
func (x *passage) heard(raw []byte, env envelope) []byte {
	x.record(evidence.Frame{Dir: evidence.ToClient, Raw: raw})
	for _, m := range env.of(response) {
		x.dialogues.answer(x.d, m.id.key)
	}
	return raw
}

// lose records that the requests which are not answered will not be.
func (x *passage) lose(why evidence.Synthetic, code int, text string) (answers [][]byte) {
	for _, a := range x.dialogues.unanswered(x.d, x.waiting) {
		raw := errorResponse(a.id.raw, code, text)
		x.record(evidence.Frame{Dir: evidence.ToClient, Raw: raw, Synthetic: why})
		answers = append(answers, raw)
	}
	return answers
}

// fail answers in the place of a server that did not. Nothing of a response is out
// yet.
func (x *passage) fail(err error) {
	cause := x.reason(err)
	if errors.Is(cause, errLeft) {
		x.abandon()
		return
	}
	status, code, why := x.classify(cause)
	text := fmt.Sprintf("server %q: %v", x.Name, cause)
	answers := x.lose(why, code, text)
	if len(answers) != 1 {
		answers = [][]byte{errorResponse(nil, code, text)}
	}
	if x.r.Method != http.MethodPost {
		http.Error(x.w, text, status)
		return
	}
	x.writeJSON(x.w, status, answers[0])
}

// reason is why a request failed. What net/http says of it names the URL, which
// may hold a secret.
func (x *passage) reason(err error) error {
	if x.ctx.Err() != nil {
		if cause := context.Cause(x.ctx); errors.Is(cause, errOverdue) || errors.Is(cause, ErrClosed) {
			return cause
		}
		return errLeft
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

func (x *passage) classify(cause error) (status, code int, why evidence.Synthetic) {
	switch {
	case errors.Is(cause, errOverdue):
		return http.StatusGatewayTimeout, codeTimeout, evidence.SyntheticTimeout
	case errors.Is(cause, errTooLong), errors.Is(cause, errNoMemory):
		x.notes.add("limit", "the server's message was "+cause.Error(), map[string]any{"conn": x.d.conn})
	case errors.Is(cause, errRedirect):
		x.notes.add("redirect", cause.Error(), map[string]any{"conn": x.d.conn})
	}
	return http.StatusBadGateway, codeTransport, evidence.SyntheticTransport
}

// abandon is called when the agent has closed the connection. Up to 2025-11-25 that
// cancels nothing; from 2026-07-28 it cancels the requests.
func (x *passage) abandon() {
	if !x.stateless {
		x.resumable = true
		return
	}
	for _, a := range x.dialogues.unanswered(x.d, x.waiting) {
		const reason = "the client closed the response stream"
		x.record(evidence.Frame{Dir: evidence.ToServer, Raw: cancellation(a.id, reason), Synthetic: evidence.SyntheticCancelled})
		x.notes.add("cancelled", reason, map[string]any{"conn": x.d.conn, "id": string(a.id.raw)})
	}
}

func (x *passage) record(f evidence.Frame) {
	f.Server, f.Conn = x.Name, x.d.conn
	x.proxy.rec.Frame(f)
}

// isOwnHost says whether a Host is the one by which the agent found the server:
// its name, or the address that the proxy listens on.
func (x *passage) isOwnHost(host string) bool {
	return hostName(host) == x.hostKey() || isListener(x.r, host)
}

// httpText says what a response without an answer was.
func httpText(status int, body []byte) string {
	text := fmt.Sprintf("HTTP %d %s without an answer", status, http.StatusText(status))
	if len(body) > 0 && status >= 400 {
		text += ": " + clip(body)
	}
	return text
}
