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
	OutcomeProtocolError  Outcome = "protocol_error"  // a JSON-RPC error, or what MCP has no such result for
	OutcomeTransportError Outcome = "transport_error" // no reply
	OutcomeTimeout        Outcome = "timeout"
	OutcomeCancelled      Outcome = "cancelled" // even when a late reply came
	OutcomeAbandoned      Outcome = "abandoned" // the client had gone when the reply came, or none did
)

// GivenUp reports whether the client gave the call up before it was answered. Such a call
// neither failed nor succeeded, and the server may have carried it out.
func (o Outcome) GivenUp() bool { return o == OutcomeCancelled || o == OutcomeAbandoned }

// Failed reports whether a call that ended so went wrong.
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
	Rounds        int             `json:"rounds,omitempty"` // input_required rounds, 2026-07-28
	Notes         []string        `json:"notes,omitempty"`  // oddities: duplicate keys, late answers

	// What the server's catalog said when the request came: the lists that its own conversation
	// had received by then, or else those of any other conversation with the server. Tools that
	// are hidden from the agent are not in it.
	Known    *bool    `json:"known_tool,omitempty"`      // it was listed; false if a complete list lacks it, absent if that is not known
	ReadOnly *bool    `json:"read_only,omitempty"`       // its readOnlyHint; absent where it gave none
	Valid    *bool    `json:"valid_arguments,omitempty"` // they match its input schema; absent if that is not known, which a note explains
	Invalid  []string `json:"invalid,omitempty"`         // where they do not match: the first few places
	// SameAs is the first call with the same server, tool and arguments, compared as by
	// capture.Equal; 0 if this is the first.
	SameAs int `json:"same_as,omitempty"`
	// Incident numbers the trial's incidents from 1. An incident is a failed call with the calls
	// of the same server and tool that failed at the same time or were made after the failure
	// was known, up to the first that succeeded. 0 is none. A call that was given up is no
	// failure.
	Incident int `json:"incident,omitempty"`

	// Origin says whether a model asked for the call. If one did, Turn is the number of the
	// model call whose answer did, and ToolUse the id of the tool use there; Google's models
	// give none.
	Origin  Origin `json:"origin,omitempty"`
	Turn    int    `json:"turn,omitempty"`
	ToolUse string `json:"tool_use,omitempty"`
}

// ErrorCode returns the code of the JSON-RPC error that answered the call, and false where there is
// none that is an integer.
func (c Call) ErrorCode() (code int64, ok bool) {
	code, err := strconv.ParseInt(string(jsontext.Member(c.Error, "code")), 10, 64)
	return code, err == nil
}

// Origin says who asked for a call, by the record of what models were asked and
// answered.
type Origin string

const (
	// OriginModel is a call that a model asked for.
	OriginModel Origin = "model"
	// OriginOutOfBand is a call that no model asked for: the record of their answers is
	// complete, and every matching tool use belongs to another call.
	OriginOutOfBand Origin = "out_of_band"
	// OriginUnknown is a call whose origin is not known: the agent's models were not asked
	// through the gateway, the record is incomplete, or several calls match one tool use.
	OriginUnknown Origin = "unknown"
)
