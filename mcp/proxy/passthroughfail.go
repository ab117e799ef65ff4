package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/transport"
)

// Reasons why the proxy ends a request to a server that speaks HTTP.
var (
	errOverdue      = errors.New("no answer in time")
	errDisconnected = errors.New("the agent left")
	errNoAnswer     = errors.New("its stream ended without an answer")
	errStatus       = errors.New("its response does not have a final status")
)

// recordUnanswered records an error response to each unanswered request, and returns them.
func (x *proxiedRequest) recordUnanswered(why evidence.Synthetic, code int, text string) (answers [][]byte) {
	for _, a := range x.sessions.unanswered(x.session, x.waiting) {
		raw := errorResponse(a.id.Raw, code, text)
		x.session.record(evidence.Frame{Dir: evidence.ToClient, Raw: raw, Synthetic: why})
		answers = append(answers, raw)
	}
	return answers
}

// fail responds in place of the server. Nothing of a response may have been sent yet.
func (x *proxiedRequest) fail(err error) {
	cause := x.reason(err)
	if errors.Is(cause, errDisconnected) {
		x.abandon()
		return
	}
	if errors.Is(cause, errClosed) {
		x.abandon()
	}
	status, code, why := x.classify(cause)
	text := cause.Error() // the runner's attempts before a server has started are not events
	if !x.isOwn() {
		text = x.describe(cause)
	}
	answers := x.recordUnanswered(why, code, text)
	if fails(x.w, cause) {
		return
	}
	if len(answers) != 1 {
		answers = [][]byte{errorResponse(nil, code, text)}
	}
	if x.r.Method != http.MethodPost {
		http.Error(x.w, text, status)
		return
	}
	x.writeJSON(x.w, status, answers[0])
}

// reason returns why the request failed, given an error of its transport.
func (x *proxiedRequest) reason(err error) error {
	if x.ctx.Err() != nil {
		if cause := context.Cause(x.ctx); errors.Is(cause, errOverdue) || errors.Is(cause, errClosed) {
			return cause
		}
		return errDisconnected
	}
	return transport.WithoutURL(err)
}

func (x *proxiedRequest) classify(cause error) (status, code int, why evidence.Synthetic) {
	switch {
	case errors.Is(cause, errOverdue):
		return http.StatusGatewayTimeout, codeTimeout, evidence.SyntheticTimeout
	case errors.Is(cause, transport.ErrFlooded):
		x.session.note("limit", cause.Error())
	case errors.Is(cause, transport.ErrTooLong), errors.Is(cause, transport.ErrNoMemory):
		x.session.note("limit", "the server's message was "+cause.Error())
	case errors.Is(cause, transport.ErrRedirect):
		x.session.note("redirect", cause.Error())
	}
	return http.StatusBadGateway, codeTransport, evidence.SyntheticTransport
}

// describe returns the message for the agent. It omits network errors of a remote server,
// which contain names and addresses from the runner's network.
func (x *proxiedRequest) describe(cause error) string {
	for _, own := range []error{errOverdue, errClosed, transport.ErrTooLong, transport.ErrNoMemory, transport.ErrFlooded, transport.ErrRedirect, errStatus, transport.ErrEncoded, errNoAnswer} {
		if errors.Is(cause, own) {
			return fmt.Sprintf("server %q: %v", x.Name, cause)
		}
	}
	x.session.note("upstream", cause.Error())
	if x.Upstream.Remote {
		return fmt.Sprintf("server %q: it cannot be reached", x.Name)
	}
	return fmt.Sprintf("server %q: %v", x.Name, cause)
}

// abandon is called when the agent has disconnected or its time is over. Up to 2025-11-25
// this cancels nothing, and the agent may resume the stream; from 2026-07-28 it cancels the
// requests.
func (x *proxiedRequest) abandon() {
	why := evidence.SyntheticCancelled
	if !x.stateless {
		x.resumable, why = true, evidence.SyntheticAbandoned
	}
	for _, a := range x.sessions.unanswered(x.session, x.waiting) {
		x.session.record(evidence.Frame{Dir: evidence.ToServer, Raw: cancellation(a.id, reasonLeft), Synthetic: why})
		if x.stateless {
			x.events.Add("cancelled", reasonLeft, map[string]any{"conn": x.session.conn, "id": string(a.id.Raw)})
		}
	}
}

// httpText describes a response that does not answer the request.
func httpText(status int, body []byte) string {
	text := fmt.Sprintf("HTTP %d %s without an answer", status, http.StatusText(status))
	if len(body) > 0 && status >= 400 {
		text += ": " + transport.Clip(body)
	}
	return text
}
