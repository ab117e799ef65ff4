package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/web"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/mirror"
	"github.com/waza-isolate/waza/mcp/sse"
	"github.com/waza-isolate/waza/mcp/transport"
)

// Timing of retries while a server may still be starting. It first refuses connections, and
// may then return errors for a moment.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = 500 * time.Millisecond
	settling   = 2 * time.Second // period in which HTTP errors and failures to reach a remote server are retried
)

// Headers of streamable HTTP.
const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
)

// httpConn is a conversation over streamable HTTP.
type httpConn struct {
	*options
	era      protocolEra
	session  string
	version  string // negotiated by initialize; empty before
	answered bool   // the server has answered before
}

// ask posts a request. The first one is retried while the server may still be starting.
func (c *httpConn) ask(ctx context.Context, id, request string) (answer jsonrpc.Message, err error) {
	try := func() error {
		answer, err = c.exchange(ctx, id, request)
		return err
	}
	if c.answered || c.once {
		err = try()
	} else {
		err = c.retry(ctx, try)
	}
	if err != nil {
		return jsonrpc.Message{}, c.failure(ctx, err)
	}
	if c.version == "" && c.era == eraSessions {
		c.version = jsontext.Text(jsontext.Member(answer.Result, "protocolVersion"))
	}
	c.answered = true
	return answer, nil
}

func (c *httpConn) notify(ctx context.Context, notification string) error {
	response, err := c.post(ctx, notification)
	if err != nil {
		return c.failure(ctx, err)
	}
	return response.Body.Close()
}

// listen answers requests that the server sends on its own stream, if it offers one, until ctx
// ends.
func (c *httpConn) listen(ctx context.Context) {
	r := c.request(ctx, http.MethodGet)
	r.Header.Set("Accept", sse.ContentType)
	response, err := c.server.Upstream.Send(r, nil)
	if err != nil {
		return
	}
	defer func() { _ = response.Body.Close() }()
	if !sse.IsContentType(response.Header.Get("Content-Type")) {
		return
	}
	in := transport.NewEventReader(response.Body, c.server.Message, c.memory())
	for {
		e, err := in.Next()
		if err != nil {
			return
		}
		reply := c.reply(ctx, e.Data)
		e.Release()
		if reply != "" && c.notify(ctx, reply) != nil {
			return
		}
	}
}

// close deletes the session at the server.
func (c *httpConn) close() {
	if c.session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.server.Grace)
	defer cancel()
	if response, err := c.server.Upstream.Send(c.request(ctx, http.MethodDelete), nil); err == nil {
		_ = response.Body.Close()
	}
}

// exchange posts a request and returns its response.
func (c *httpConn) exchange(ctx context.Context, id, request string) (jsonrpc.Message, error) {
	response, err := c.post(ctx, request)
	if err != nil {
		return jsonrpc.Message{}, err
	}
	defer func() { _ = response.Body.Close() }()
	if web.IsEncoded(response.Header) {
		return jsonrpc.Message{}, transport.ErrEncoded
	}
	if session := response.Header.Get(headerSession); session != "" {
		c.session = session
	}
	if sse.IsContentType(response.Header.Get("Content-Type")) {
		return c.readStream(ctx, response, id)
	}
	body, err := transport.ReadBody(response.Body, response.ContentLength, c.server.Message, c.memory())
	if err != nil {
		return jsonrpc.Message{}, err
	}
	m, ok := answers(body.Bytes, id)
	if response.StatusCode == http.StatusNotFound && c.session != "" && c.version != "" {
		c.session, c.version = "", ""
		return jsonrpc.Message{}, errGone
	}
	if ok || isRefusal(m) {
		return m, nil
	}
	text := fmt.Sprintf("HTTP %d %s without an answer", response.StatusCode, http.StatusText(response.StatusCode))
	if other := stray(m, id); other != "" {
		text += "; " + other
	}
	if response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusMethodNotAllowed {
		text += "; is " + c.server.Upstream.URL.Path + " the path of its endpoint?"
	}
	return jsonrpc.Message{}, transport.HTTPError{Status: response.StatusCode, Text: text}
}

// errGone means that the server has ended the session.
var errGone = errors.New("HTTP 404 in a session")

// isRefusal reports whether m is an error that names no request.
func isRefusal(m jsonrpc.Message) bool {
	return m.Error != nil && m.Method == "" && m.ID.Key == ""
}

// readStream returns the response from an event stream.
func (c *httpConn) readStream(ctx context.Context, response *http.Response, id string) (jsonrpc.Message, error) {
	in := transport.NewEventReader(response.Body, c.server.Message, c.memory())
	other := ""
	for {
		e, err := in.Next()
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
			return jsonrpc.Message{}, errors.New(strings.TrimSuffix("its stream ended without an answer; "+other, "; "))
		}
		if err != nil {
			return jsonrpc.Message{}, err
		}
		data := append([]byte(nil), e.Data...)
		e.Release()
		if len(data) == 0 {
			continue
		}
		m, ok := answers(data, id)
		if ok || isRefusal(m) {
			return m, nil
		}
		other = cmp.Or(stray(m, id), other)
		if reply := c.reply(ctx, data); reply != "" {
			if err := c.notify(ctx, reply); err != nil {
				return jsonrpc.Message{}, err
			}
		}
	}
}

// memory returns a budget for reading one message and parsing another, including buffer
// growth.
func (c *httpConn) memory() *bounded.Budget { return bounded.NewBudget(4 * c.server.Message) }

func (c *httpConn) post(ctx context.Context, message string) (*http.Response, error) {
	r := c.request(ctx, http.MethodPost)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, "+sse.ContentType)
	if c.era == eraStateless {
		r.Header.Set(headerVersion, statelessVersion)
		if m, err := jsonrpc.ReadOne([]byte(message)); err == nil && m.Method != "" {
			r.Header.Set("Mcp-Method", m.Method)
			if name := nameOf(m); name != "" {
				r.Header.Set("Mcp-Name", mirror.Encode(name))
			}
			for name, value := range c.headers {
				r.Header.Set(name, value)
			}
		}
	}
	response, err := c.server.Upstream.Send(r, []byte(message))
	if start, ok := errors.AsType[*transport.StartError](err); ok && !start.Program {
		err = start.Err
	}
	return response, err
}

// nameOf returns the value of Mcp-Name; 2026-07-28 basic/transports/streamable-http.
func nameOf(m jsonrpc.Message) string {
	switch m.Method {
	case "tools/call", "prompts/get":
		return jsontext.Word(jsontext.Member(m.Params, "name"))
	case "resources/read":
		return jsontext.Word(jsontext.Member(m.Params, "uri"))
	}
	return ""
}

func (c *httpConn) request(ctx context.Context, method string) *http.Request {
	r := c.server.Upstream.Request(ctx, method)
	r.Header.Set("User-Agent", c.name)
	if c.session != "" {
		r.Header.Set(headerSession, c.session)
	}
	if c.version != "" {
		r.Header.Set(headerVersion, c.version)
	}
	return r
}

// retry calls try until it succeeds, fails permanently, or ctx ends. It returns the last
// error.
func (o *options) retry(ctx context.Context, try func() error) error {
	began := time.Now()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := try()
		if err == nil || !o.mayRecover(err, time.Since(began)) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-o.program().Gone():
			return err
		case <-ctx.Done():
			return err
		}
		if ctx.Err() != nil { // another try would only fail with the error of ctx
			return err
		}
	}
}

// isFinal reports whether retrying cannot help.
func isFinal(err error) bool {
	_, barred := errors.AsType[*transport.Barred](err)
	_, start := errors.AsType[*transport.StartError](err)
	return barred || start || errors.Is(err, transport.ErrRedirect) || errors.Is(err, transport.ErrEndpoint) || errors.Is(err, transport.ErrEncoded) || errors.Is(err, transport.ErrFlooded)
}

func isUnauthorized(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// mayRecover reports whether to retry after an error, given the time since the first try.
func (o *options) mayRecover(err error, since time.Duration) bool {
	answer, ok := errors.AsType[transport.HTTPError](err)
	switch {
	case isFinal(err), ok && isUnauthorized(answer.Status):
		return false
	case ok && answer.Status < 500:
		return since < settling
	}
	return !o.server.Upstream.Remote || since < settling
}

// failure returns the error for a server that speaks HTTP and did not answer.
func (o *options) failure(ctx context.Context, err error) error {
	up := o.server.Upstream
	if start, ok := errors.AsType[*transport.StartError](err); ok {
		return o.fail(ErrNotStarted, start.Err)
	}
	if _, ended := o.program().Ended(); ended {
		return o.exited()
	}
	if errors.Is(err, errGone) {
		return o.fail(ErrGone, nil)
	}
	if answer, ok := errors.AsType[transport.HTTPError](err); ok && isUnauthorized(answer.Status) {
		return o.fail(ErrUnauthorized, o.authorizationAdvice(answer.Status))
	} else if ok {
		return o.fail(ErrRefused, err)
	}
	if barred, ok := errors.AsType[*transport.Barred](err); ok {
		return o.fail(ErrUnreachable, barred)
	}
	if isFinal(err) {
		return o.fail(ErrRefused, err)
	}
	if late := context.Cause(ctx); late != nil {
		if errors.Is(err, late) || errors.Is(err, ctx.Err()) {
			return o.fail(ErrNoAnswer, late)
		}
		advice := "start it, or check its url"
		if !up.Remote {
			advice = fmt.Sprintf("check that it listens on port %s", up.URL.Port())
		}
		return o.fail(ErrNoAnswer, fmt.Errorf("%w, and the last try failed: %w; %s", late, transport.WithoutURL(err), advice))
	}
	if _, ok := errors.AsType[*net.OpError](err); ok && up.Remote {
		return o.fail(ErrUnreachable, fmt.Errorf("%w; check its url", transport.WithoutURL(err)))
	}
	return o.fail(ErrNoAnswer, transport.WithoutURL(err))
}

func (o *options) authorizationAdvice(status int) error {
	switch up := o.server.Upstream; {
	case up.Remote && len(up.Headers) > 0:
		return fmt.Errorf("HTTP %d; the headers of mcp_servers.%s are not accepted; check their values", status, o.server.Name)
	case up.Remote:
		return fmt.Errorf(`HTTP %d; set headers.Authorization of mcp_servers.%s, such as "Bearer ${TOKEN}"`, status, o.server.Name)
	}
	return fmt.Errorf("HTTP %d; it runs in its own container and needs no authorization, so turn that off", status)
}
