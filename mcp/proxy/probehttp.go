package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/waza-isolate/waza/mcp/sse"
)

// How a probe asks again: a server that starts first refuses connections, then may
// answer with errors for a moment.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = 500 * time.Millisecond
	settling   = 2 * time.Second // how long HTTP errors are no answer yet, and a remote server not there
)

// errHTTP is an HTTP response that answers nothing.
type errHTTP struct {
	status int
	text   string
}

func (e errHTTP) Error() string { return e.text }

// httpProbe is a probe's conversation with a server that speaks HTTP.
type httpProbe struct {
	*prober
	up      *Upstream
	era     Era
	session string
	version string
}

// askHTTP asks a server where it is.
func (p *prober) askHTTP(ctx context.Context, era Era) (ServerInfo, error) {
	h := &httpProbe{prober: p, up: p.server.Upstream, era: era}
	defer h.leave(ctx)
	return p.handshake(ctx, era, h)
}

// ask posts a request, the first one again while the server may still be starting.
func (h *httpProbe) ask(ctx context.Context, request string, first bool) (answer []byte, err error) {
	h.asked(request)
	try := func() error {
		answer, err = h.exchange(ctx, request)
		return err
	}
	if first {
		err = h.retry(ctx, try)
	} else {
		err = try()
	}
	if err != nil {
		return nil, h.failure(ctx, err)
	}
	h.learn(answer)
	return answer, nil
}

// retry tries until that succeeds, cannot succeed any more, or ctx ends. It returns
// the last error.
func (h *httpProbe) retry(ctx context.Context, try func() error) error {
	began := time.Now()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := try()
		if err == nil || !h.mayRecover(err, time.Since(began)) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-h.gone():
			return err
		case <-ctx.Done():
			return err
		}
	}
}

// learn keeps the version that initialize agreed on, for the requests to come.
func (h *httpProbe) learn(answer []byte) {
	if info, err := readAnswer(h.era, answer); err == nil && h.era == EraSessions {
		h.version = info.ProtocolVersion
	}
}

// tell posts a notification.
func (h *httpProbe) tell(ctx context.Context, notification string) error {
	response, err := h.post(ctx, notification)
	if err != nil {
		return h.failure(ctx, err)
	}
	return response.Body.Close()
}

// listen waits until ctx ends, which is no error, or the program behind the server
// does. Without a request there is nothing to hear.
func (h *httpProbe) listen(ctx context.Context) error {
	select {
	case <-h.gone():
		return errors.New(h.up.Process.end.String())
	case <-ctx.Done():
		return nil
	}
}

// isFinal says whether an error stays, however often one asks.
func isFinal(err error) bool {
	_, barred := errors.AsType[*Barred](err)
	return barred || errors.Is(err, errRedirect) || errors.Is(err, errEndpoint) || errors.Is(err, errEncoded)
}

// mayRecover says whether to ask again.
func (h *httpProbe) mayRecover(err error, since time.Duration) bool {
	if isFinal(err) {
		return false
	}
	if e, ok := errors.AsType[errHTTP](err); ok && (e.status == http.StatusUnauthorized || e.status == http.StatusForbidden) {
		return false
	} else if ok && e.status < 500 {
		return since < settling
	}
	return !h.up.Remote || since < settling
}

// gone is closed when the program behind the server has ended.
func (h *httpProbe) gone() <-chan struct{} {
	if h.up.Process == nil {
		return nil
	}
	return h.up.Process.Gone()
}

// failure says why there was no answer.
func (h *httpProbe) failure(ctx context.Context, err error) error {
	if r := h.up.Process; r != nil {
		select {
		case <-r.gone:
			return &ProbeError{
				Server: h.server.Name, Class: ErrExited, Cause: errors.New(r.end.String()),
				Exit: r.end.known(), Stderr: r.words.String(),
			}
		default:
		}
	}
	if e, ok := errors.AsType[errHTTP](err); ok {
		if e.status == http.StatusUnauthorized || e.status == http.StatusForbidden {
			return h.fail(ErrUnauthorized, h.advice(e.status))
		}
		return h.fail(ErrRefused, err)
	}
	if barred, ok := errors.AsType[*Barred](err); ok {
		return h.fail(ErrUnreachable, barred)
	}
	if isFinal(err) {
		return h.fail(ErrRefused, err)
	}
	if late := context.Cause(ctx); late != nil {
		if errors.Is(err, late) || errors.Is(err, ctx.Err()) {
			return h.fail(ErrNoAnswer, late)
		}
		return h.fail(ErrNoAnswer, fmt.Errorf("%w; at last: %w%s", late, withoutURL(err), h.portAdvice()))
	}
	if _, ok := errors.AsType[*net.OpError](err); ok && h.up.Remote {
		return h.fail(ErrUnreachable, fmt.Errorf("%w; check its url", withoutURL(err)))
	}
	return h.fail(ErrNoAnswer, withoutURL(err))
}

// portAdvice is what to look at where no request came through.
func (h *httpProbe) portAdvice() string {
	if h.up.Remote {
		return ""
	}
	return fmt.Sprintf("; is %s the port that it listens on?", h.up.URL.Port())
}

func (h *httpProbe) advice(status int) error {
	if h.up.Remote && len(h.up.Headers) > 0 {
		return fmt.Errorf("HTTP %d; the headers of mcp_servers.%s do not do, so check their values", status, h.server.Name)
	}
	if h.up.Remote {
		return fmt.Errorf(`HTTP %d; set headers.Authorization of mcp_servers.%s, such as "Bearer ${TOKEN}"`, status, h.server.Name)
	}
	return fmt.Errorf("HTTP %d; in its own container it needs none, so configure it to do without", status)
}

func (h *httpProbe) fail(class, cause error) error {
	failed := &ProbeError{Server: h.server.Name, Class: class, Cause: cause}
	if h.up.Process != nil {
		failed.Stderr = h.up.Process.words.String()
	}
	return failed
}

// exchange posts a request and returns the answer to it.
func (h *httpProbe) exchange(ctx context.Context, request string) ([]byte, error) {
	response, err := h.post(ctx, request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if isEncoded(response.Header) {
		return nil, errEncoded
	}
	if session := response.Header.Get(headerSession); session != "" {
		h.session = session
	}
	answer, err := h.read(ctx, response, request)
	if answer == nil && err == nil {
		text := fmt.Sprintf("HTTP %d %s without an answer", response.StatusCode, http.StatusText(response.StatusCode))
		if response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusMethodNotAllowed {
			text += "; is " + h.up.URL.Path + " the path of its endpoint?"
		}
		err = errHTTP{response.StatusCode, text}
	}
	return answer, err
}

func (h *httpProbe) post(ctx context.Context, message string) (*http.Response, error) {
	r := h.request(ctx, http.MethodPost)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, "+sse.ContentType)
	if h.era == EraStateless {
		r.Header.Set(headerVersion, statelessVersion)
		if env, err := parse([]byte(message)); err == nil {
			r.Header.Set(headerMethod, env.messages[0].method)
			if name := mirroredName(env.messages[0]); name != "" {
				r.Header.Set(headerName, name)
			}
		}
	}
	return h.up.send(r, []byte(message))
}

func (h *httpProbe) request(ctx context.Context, method string) *http.Request {
	r := h.up.request(ctx, method, nil)
	r.Header.Set("Accept-Encoding", "identity")
	r.Header.Set("User-Agent", "waza")
	if h.session != "" {
		r.Header.Set(headerSession, h.session)
	}
	if h.version != "" {
		r.Header.Set(headerVersion, h.version)
	}
	h.up.authorize(r)
	return r
}

// read finds the answer in a response; nil where there is none.
func (h *httpProbe) read(ctx context.Context, response *http.Response, request string) ([]byte, error) {
	memory := h.budget()
	if !sse.IsContentType(response.Header.Get("Content-Type")) {
		body, err := readBody(response.Body, h.message(), memory)
		if err != nil {
			return nil, err
		}
		if err := h.heard(body.buf); err != nil {
			return nil, err
		}
		if isAnswer(body.buf, request) || response.StatusCode >= 400 && isRefusal(body.buf) {
			return body.buf, nil
		}
		return nil, nil
	}
	in := newEventReader(response.Body, h.message(), memory)
	for {
		e, err := in.next()
		if err != nil {
			return nil, noEOF(err)
		}
		data := append([]byte(nil), e.data...)
		e.release()
		if len(data) == 0 {
			continue
		}
		if err := h.heard(data); err != nil {
			return nil, err
		}
		if isAnswer(data, request) {
			return data, nil
		}
		if no := h.refusalOf(data); no != nil {
			h.asked(string(no))
			if err := h.tell(ctx, string(no)); err != nil {
				return nil, err
			}
		}
	}
}

// isRefusal says whether a message is an error for a request whose id is not told.
func isRefusal(raw []byte) bool {
	env, err := parse(raw)
	return err == nil && !env.batch && env.messages[0].isError && env.messages[0].id.Key == ""
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("its stream ended without an answer")
	}
	return err
}

// leave ends the session that the probe opened.
func (h *httpProbe) leave(ctx context.Context) {
	if h.session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.limits.Grace)
	defer cancel()
	if response, err := h.up.send(h.request(ctx, http.MethodDelete), nil); err == nil {
		_ = response.Body.Close()
	}
}
