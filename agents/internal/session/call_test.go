package session

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/waza-isolate/waza/evidence"
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
		got := answered(t.Context(), &transport.JSONRPCResponse{Result: json.RawMessage(result)}, nil)
		if got.Outcome != want || (want == evidence.OutcomeProtocolError) == (got.Message == "") {
			t.Errorf("%s: %+v, want %s", result, got, want)
		}
	}
	refused := &transport.JSONRPCResponse{Result: json.RawMessage(`{"isError":true}`)}
	if got := answered(t.Context(), refused, errors.New("no content")); got.Outcome != evidence.OutcomeProtocolError {
		t.Errorf("what the client refuses: %+v", got)
	}
}
