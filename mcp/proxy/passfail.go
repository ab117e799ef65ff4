package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/transport"
)

// Why the proxy ends a request to a server that speaks HTTP.
var (
	errOverdue = errors.New("no answer in time")
	errLeft    = errors.New("the agent left")
	errCut     = errors.New("its stream ended without an answer")
	errStatus  = errors.New("its response has a status that is no final one")
)

// lose records that the requests which are not answered will not be.
func (x *proxiedRequest) lose(why evidence.Synthetic, code int, text string) (answers [][]byte) {
	for _, a := range x.dialogues.unanswered(x.d, x.waiting) {
		raw := errorResponse(a.id.Raw, code, text)
		x.record(evidence.Frame{Dir: evidence.ToClient, Raw: raw, Synthetic: why})
		answers = append(answers, raw)
	}
	return answers
}

// cut records that the requests which are not answered will not be, since a response of which
// something is out goes no further.
func (x *proxiedRequest) cut(err error) {
	cause := x.reason(err)
	switch {
	case errors.Is(cause, errLeft), errors.Is(cause, ErrClosed):
		x.abandon()
	case errors.Is(cause, io.EOF), errors.Is(cause, io.ErrUnexpectedEOF):
		cause = errCut
	}
	if !errors.Is(cause, errLeft) {
		_, code, why := x.classify(cause)
		x.lose(why, code, x.sentence(cause))
	}
}

// fail answers in the place of a server that did not. Nothing of a response is out
// yet.
func (x *proxiedRequest) fail(err error) {
	cause := x.reason(err)
	if errors.Is(cause, errLeft) {
		x.abandon()
		return
	}
	if errors.Is(cause, ErrClosed) {
		x.abandon()
	}
	status, code, why := x.classify(cause)
	text := x.sentence(cause)
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

// reason is why a request failed.
func (x *proxiedRequest) reason(err error) error {
	if x.ctx.Err() != nil {
		if cause := context.Cause(x.ctx); errors.Is(cause, errOverdue) || errors.Is(cause, ErrClosed) {
			return cause
		}
		return errLeft
	}
	return transport.WithoutURL(err)
}

func (x *proxiedRequest) classify(cause error) (status, code int, why evidence.Synthetic) {
	switch {
	case errors.Is(cause, errOverdue):
		return http.StatusGatewayTimeout, codeTimeout, evidence.SyntheticTimeout
	case errors.Is(cause, errAgentShare):
		return http.StatusOK, codeBudget, evidence.SyntheticBudget
	case errors.Is(cause, transport.ErrFlooded):
		x.events.Add("limit", cause.Error(), map[string]any{"conn": x.d.conn})
	case errors.Is(cause, transport.ErrTooLong), errors.Is(cause, transport.ErrNoMemory):
		x.events.Add("limit", "the server's message was "+cause.Error(), map[string]any{"conn": x.d.conn})
	case errors.Is(cause, transport.ErrRedirect):
		x.events.Add("redirect", cause.Error(), map[string]any{"conn": x.d.conn})
	}
	return http.StatusBadGateway, codeTransport, evidence.SyntheticTransport
}

// sentence is what the agent is told. How the runner came to fail at a remote server
// is no affair of the agent's: errors of the network hold names and addresses.
func (x *proxiedRequest) sentence(cause error) string {
	for _, own := range []error{errOverdue, ErrClosed, transport.ErrTooLong, transport.ErrNoMemory, transport.ErrFlooded, errAgentShare, transport.ErrRedirect, errStatus, transport.ErrEncoded, errCut} {
		if errors.Is(cause, own) {
			return fmt.Sprintf("server %q: %v", x.Name, cause)
		}
	}
	x.events.Add("upstream", cause.Error(), map[string]any{"conn": x.d.conn})
	if x.Upstream.Remote {
		return fmt.Sprintf("server %q: it cannot be reached", x.Name)
	}
	return fmt.Sprintf("server %q: %v", x.Name, cause)
}

// abandon is called when the agent has closed the connection, or its time is over. Up to
// 2025-11-25 that cancels nothing, and the agent may come back for the rest; from 2026-07-28
// it cancels the requests.
func (x *proxiedRequest) abandon() {
	why := evidence.SyntheticCancelled
	if !x.stateless {
		x.resumable, why = true, evidence.SyntheticAbandoned
	}
	for _, a := range x.dialogues.unanswered(x.d, x.waiting) {
		x.record(evidence.Frame{Dir: evidence.ToServer, Raw: cancellation(a.id, reasonLeft), Synthetic: why})
		if x.stateless {
			x.events.Add("cancelled", reasonLeft, map[string]any{"conn": x.d.conn, "id": string(a.id.Raw)})
		}
	}
}

// httpText says what a response without an answer was.
func httpText(status int, body []byte) string {
	text := fmt.Sprintf("HTTP %d %s without an answer", status, http.StatusText(status))
	if len(body) > 0 && status >= 400 {
		text += ": " + transport.Clip(body)
	}
	return text
}
