package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
)

// Error codes of the proxy's own answers. The last three are in the range that JSON-RPC
// reserves for implementations.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeInvalidParams  = -32602
	codeInternal       = -32603
	codeNoMethod       = -32601
	codeHeaderMismatch = -32020 // 2026-07-28 basic/index
	codeCapability     = -32021 // 2026-07-28 basic/index
	codeVersion        = -32022 // 2026-07-28 basic/index
	codeTransport      = -32000
	codeTimeout        = -32001
	codeBudget         = -32003
)

// inbound is an HTTP request from the agent whose body has been read.
type inbound struct {
	ctx     context.Context // of the HTTP request
	raw     []byte
	env     envelope
	peer    evidence.Peer
	accepts accepts
	fault   *fault // the fault of the call; nil for none
}

// exchange holds the requests of one POST and the stream of their answers.
type exchange struct {
	*agentStream
	streams bool // the agent accepts a stream, and so messages before the response
	endless bool // a subscription, which has no time limit
	tokens  []string
	asked   []message // the requests
	held    int64     // bytes of the memory budget, held until settled

	ctx     context.Context // ends when settled
	settled func()

	open     map[string]jsonrpc.ID // ids not yet answered; guarded by the stdioSession's mu
	detached bool                  // messages go to the replay buffer until the stream is resumed; guarded by the stdioSession's mu
	left     bool                  // the response to the POST is over; guarded by the stdioSession's mu

	abandoned bool // the agent disconnected early; guarded by the stdioSession's mu

	limit time.Duration // of the timer; set once
	timer *time.Timer   // guarded by the stdioSession's mu
}

func newExchange(s *stdioSession, in inbound) *exchange {
	limits := s.bridge.proxy.limits
	ex := &exchange{
		agentStream: &agentStream{queue: newQueue(limits.Queue, s.bridge.proxy.memory), replay: s.replay},
		streams:     in.accepts.stream,
		asked:       in.env.of(request),
		open:        map[string]jsonrpc.ID{},
	}
	if s.isShared() {
		ex.replay = nil // without a session, streams cannot be resumed
	}
	if in.fault.hides() { // the agent gets only this, and must not get the rest by resuming the stream
		ex.replay, ex.streams = nil, false
	}
	ex.ctx, ex.settled = context.WithCancel(context.Background())
	for i, m := range ex.asked {
		ex.asked[i].injects, ex.asked[i].fault = s.bridge.injectionsFor(m), in.fault
		ex.asked[i].name, ex.asked[i].version = "", "" // may be long, and the exchange is kept while the agent is disconnected
		ex.open[m.id.Key] = m.id
		ex.held += messageCost + 2*idCost(m.id.Key) + idCost(m.token.Key)
		ex.endless = ex.endless || s.isShared() && m.method == methodListen
		if m.token.Key != "" {
			ex.tokens = append(ex.tokens, m.token.Key)
		}
	}
	return ex
}

// messageCost is an upper bound on the memory of one request without its ids.
const messageCost = 512

// status returns the HTTP status of a response that is the only answer of ex. Revisions
// without sessions require a status other than 200 for some errors; 2026-07-28
// basic/transports/streamable-http and basic/index.
func (ex *exchange) status(s *stdioSession, answer message) int {
	if !s.isShared() || !answer.isError {
		return http.StatusOK
	}
	switch answer.errorCode {
	case codeNoMethod:
		return http.StatusNotFound
	case codeHeaderMismatch, codeCapability, codeVersion:
		return http.StatusBadRequest
	case codeInvalidParams:
		if !ex.asked[0].capabilities {
			return http.StatusBadRequest
		}
	}
	return http.StatusOK
}

// errorResponse returns a JSON-RPC error response; a nil id becomes null. The error's data
// marks an answer that comes from the proxy, not from the server.
func errorResponse(id json.RawMessage, code int, text string) []byte {
	quoted, _ := json.Marshal(text)
	data := ""
	if why := map[int]string{codeTransport: "transport_error", codeTimeout: "timeout", codeBudget: "budget"}[code]; why != "" {
		data = fmt.Sprintf(`,"data":{"waza":%q}`, why)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s%s}}`, cmp.Or(string(id), "null"), code, quoted, data)
}

// cancellation returns the notification that cancels a request on stdio; 2026-07-28
// basic/patterns/cancellation.
func cancellation(id jsonrpc.ID, reason string) []byte {
	quoted, _ := json.Marshal(reason)
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":%s}}`, id.Raw, quoted)
}
