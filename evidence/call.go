package evidence

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// Outcome is how a call ended.
type Outcome string

const (
	OutcomeOK             Outcome = "ok"
	OutcomeToolError      Outcome = "tool_error"      // result with isError
	OutcomeProtocolError  Outcome = "protocol_error"  // a JSON-RPC error, or a result that MCP does not define
	OutcomeTransportError Outcome = "transport_error" // no reply
	OutcomeTimeout        Outcome = "timeout"
	OutcomeCancelled      Outcome = "cancelled" // even if a late reply arrived
	OutcomeAbandoned      Outcome = "abandoned" // the client had disconnected before a reply, or there was none
)

// GivenUp reports whether the client gave up on the call before the reply. Such a call
// neither failed nor succeeded; the server may have executed it.
func (o Outcome) GivenUp() bool { return o == OutcomeCancelled || o == OutcomeAbandoned }

// Unanswered reports whether the client got no reply to the call, for whatever reason. The server
// may have executed it.
func (o Outcome) Unanswered() bool {
	return o.GivenUp() || o == OutcomeTimeout || o == OutcomeTransportError
}

// Failed reports whether the outcome is a failure.
func (o Outcome) Failed() bool {
	switch o {
	case OutcomeToolError, OutcomeProtocolError, OutcomeTransportError, OutcomeTimeout:
		return true
	}
	return false
}

// Call is one logical tool call, derived from frames.
type Call struct {
	Seq           int             `json:"seq"` // from 1, in order of the request frames
	Server        string          `json:"server"`
	Conn          string          `json:"conn"`
	ID            json.RawMessage `json:"id"`
	Tool          string          `json:"tool"`
	Arguments     json.RawMessage `json:"arguments,omitempty"`
	Result        Result          `json:"result,omitzero"`
	Error         json.RawMessage `json:"error,omitempty"`
	Outcome       Outcome         `json:"outcome"`
	Start         time.Time       `json:"start"`
	End           time.Time       `json:"end,omitzero"`
	RequestFrame  int64           `json:"request_frame"`
	ResponseFrame int64           `json:"response_frame,omitempty"`
	Fault         FaultKind       `json:"fault,omitempty"`  // the fault that waza injected into the call
	Rounds        int             `json:"rounds,omitempty"` // input_required rounds, 2026-07-28
	Notes         []string        `json:"notes,omitempty"`  // irregularities such as duplicate keys or late replies

	// The following compare the call with the server's catalog at the time of the request: the lists received
	// by then in the same conversation or, failing that, in any other conversation with the server. Tools
	// hidden from the agent are not in it.
	Known    *bool    `json:"known_tool,omitempty"`      // whether the tool was listed; nil if unknown, which includes an incomplete list without it
	ReadOnly *bool    `json:"read_only,omitempty"`       // the tool's readOnlyHint; if the tool was listed only after the call, that of the first list; nil if it has none
	Valid    *bool    `json:"valid_arguments,omitempty"` // whether the arguments match the input schema; nil if unknown, with a note why
	Invalid  []string `json:"invalid,omitempty"`         // the first few places that do not match
	// SameAs is the number of the first call with the same server, tool and arguments, as
	// compared by jsontext.Same; 0 if this is the first.
	SameAs int `json:"same_as,omitempty"`
	// Incident numbers the trial's incidents from 1; 0 means none. An incident is a failed
	// call together with the calls of the same server and tool that failed at the same time
	// or were made after the failure was known, up to the first success. A call that was
	// given up is not a failure.
	Incident int `json:"incident,omitempty"`

	// Marks holds the names of secrets that were replaced in the arguments, by argument; under "" are those
	// that may be in any of them. ResultMarks holds the names of secrets in the answer.
	Marks       map[string][]string `json:"-"`
	ResultMarks []string            `json:"-"`

	// Origin says whether a model asked for the call. If so, Turn is the number of the model call whose
	// response did, and ToolUse is the ID of the tool use in that response; Google's models provide none.
	Origin  Origin `json:"origin,omitempty"`
	Turn    int    `json:"turn,omitempty"`
	ToolUse string `json:"tool_use,omitempty"`
}

// ToolRef returns the tool that was called.
func (c Call) ToolRef() ToolRef { return ToolRef{c.Server, c.Tool} }

// ErrorCode returns the code of the JSON-RPC error response; ok is false if there is none
// or it is not an integer.
func (c Call) ErrorCode() (code int64, ok bool) {
	code, err := strconv.ParseInt(string(jsontext.Member(c.Error, "code")), 10, 64)
	return code, err == nil
}

// Origin says whether a model asked for a call, according to the recorded model calls.
type Origin string

const (
	// OriginModel means that a model asked for the call.
	OriginModel Origin = "model"
	// OriginOutOfBand means that no model asked for the call: the record of model responses
	// is complete, and every matching tool use belongs to another call.
	OriginOutOfBand Origin = "out_of_band"
	// OriginUnknown means that the origin cannot be determined: the agent's models were not
	// called through the gateway, the record is incomplete, or several calls match one tool
	// use.
	OriginUnknown Origin = "unknown"
)
