package session

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"

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
		got := answered(t.Context(), &transport.JSONRPCResponse{Result: json.RawMessage(result)}, nil)
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
		response := &transport.JSONRPCResponse{Result: json.RawMessage(result)}
		if got := answered(t.Context(), response, errors.New("refused by the client")); got.Outcome != want {
			t.Errorf("%s: %+v, want %s", result, got, want)
		}
	}
}

// An answer that is not as JSON-RPC specifies becomes one that is; the others stay as they are.
func TestTidied(t *testing.T) {
	asked, _ := jsonrpc.ParseID([]byte("7"))
	wrong := `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"the server's answer is wrong: `
	for raw, want := range map[string]string{
		`{"jsonrpc":"2.0", "id":7.0,"result":{"n":1.0}}`:    `{"jsonrpc":"2.0", "id":7.0,"result":{"n":1.0}}`,
		`{"jsonrpc":"2.0","id":8,"result":{},"error":null}`: `{"jsonrpc":"2.0","id":8,"result":{},"error":null}`,
		`{"jsonrpc":"2.0","method":"ping","id":7}`:          `{"jsonrpc":"2.0","method":"ping","id":7}`,
		`[DONE]`: `[DONE]`,
		`{"id":7,"result":{"n":12345678901234567890},"error":null}`:             `{"jsonrpc":"2.0","id":7,"result":{"n":12345678901234567890}}`,
		`{"jsonrpc":"2.0","id":7,"error":{"code":"E42","message":"boom"}}`:      `{"jsonrpc":"2.0","id":7,"error":{"code":0,"message":"boom"}}`,
		`{"jsonrpc":"2.0","id":7,"error":"boom"}`:                               `{"jsonrpc":"2.0","id":7,"error":{"code":0,"message":"boom"}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"boom"}}`:      `{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"boom"}}`,
		`{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":"m"}}`: `{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"m"}}`,
		`[{"jsonrpc":"2.0","id":7,"result":{}}]`:                                `{"jsonrpc":"2.0","id":7,"result":{}}`,
		`{"jsonrpc":"2.0","id":7,"result":null}`:                                wrong + `it has neither a result nor an error"}}`,
		`{"jsonrpc":"2.0","id":7,"result":{"mean":NaN}}`:                        wrong + `not JSON: invalid character 'N' looking for beginning of value"}}`,
		`{"jsonrpc":"2.0","id":"7","result":{}}`:                                `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"the id of the server's answer is of another type than the request's"}}`,
	} {
		if got := string(tidied([]byte(raw), asked)); got != want {
			t.Errorf("%s became\n%s, want\n%s", raw, got, want)
		}
	}
}
