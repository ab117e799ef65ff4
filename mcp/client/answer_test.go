package client

import (
	"encoding/json"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
)

// How a call ended is told by the result as it crossed, and a result that is none by MCP's
// schema is no success.
func TestAnswered(t *testing.T) {
	for result, want := range map[string]evidence.Outcome{
		`{"content":[]}`:                   evidence.OutcomeOK,
		`{"content":[],"isError":false}`:   evidence.OutcomeOK,
		`{"content":[],"isError":true}`:    evidence.OutcomeToolError,
		`{"content":[],"isError":"false"}`: evidence.OutcomeProtocolError,
		`{"content":[],"isError":null}`:    evidence.OutcomeProtocolError,
		`{"content":[],"isError":0}`:       evidence.OutcomeProtocolError,
		`[]`:                               evidence.OutcomeProtocolError,
		`null`:                             evidence.OutcomeProtocolError,
	} {
		got := (&Session{era: eraStateless}).answered(t.Context(), jsonrpc.Message{Result: json.RawMessage(result)}, nil)
		if got.Outcome != want || (want == evidence.OutcomeProtocolError) == (got.Message == "") {
			t.Errorf("%s: %+v, want %s", result, got, want)
		}
	}
	for result, want := range map[string]evidence.Outcome{
		`{"structuredContent":{"x":42}}`:                           evidence.OutcomeOK,
		`{"content":null}`:                                         evidence.OutcomeOK,
		`{"content":[{"type":"future_kind"}],"isError":true}`:      evidence.OutcomeToolError,
		`{"resultType":"input_required","inputRequests":{"a":{}}}`: evidence.OutcomeProtocolError,
	} {
		if got := (&Session{era: eraStateless}).answered(t.Context(), jsonrpc.Message{Result: json.RawMessage(result)}, nil); got.Outcome != want {
			t.Errorf("%s: %+v, want %s", result, got, want)
		}
	}
}
