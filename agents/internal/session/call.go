package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/waza-isolate/waza/internal/jsontext"

	"github.com/waza-isolate/waza/evidence"
)

// Call is one call of a tool. Arguments is an object. Meta goes into the request's
// _meta; nil for none.
type Call struct {
	Server, Tool string
	Arguments    json.RawMessage
	Meta         map[string]any
}

// Answer is how a call ended, as the agent sees it.
type Answer struct {
	Outcome evidence.Outcome
	Result  json.RawMessage // the MCP result as it came; nil without one
	Code    int             // of a protocol error
	Message string          // where there is no result to go by
}

// Call makes one call, which may take as long as timeout, and says how it ended.
func (s *Servers) Call(ctx context.Context, c Call, timeout time.Duration) Answer {
	ctx, cancel := withTimeout(ctx, timeout)
	defer cancel()
	have, err := s.get(ctx, c.Server)
	if err != nil {
		return failed(ctx, err)
	}
	have.wire.answer = nil
	var request mcp.CallToolRequest
	request.Params.Name = c.Tool
	request.Params.Arguments = c.Arguments
	if c.Meta != nil {
		request.Params.Meta = &mcp.Meta{AdditionalFields: c.Meta}
	}
	_, err = have.client.CallTool(ctx, request)
	a := answered(ctx, have.wire.answer, err)
	if a.Outcome == evidence.OutcomeTransportError {
		s.drop(c.Server)
	}
	return a
}

func withTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v", timeout))
}

// failed is the answer where none came.
func failed(ctx context.Context, err error) Answer {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return Answer{Outcome: evidence.OutcomeTimeout, Message: context.Cause(ctx).Error()}
	}
	message := "no answer"
	if err != nil {
		message = err.Error()
	}
	return Answer{Outcome: evidence.OutcomeTransportError, Message: message}
}

// answered tells from the wire's answer and the client's error how a call ended.
// The client's error alone is a result that is not the protocol's, or one that
// asks for input that nobody can give.
func answered(ctx context.Context, response *transport.JSONRPCResponse, err error) Answer {
	switch {
	case response == nil || response.Error == nil && response.Result == nil:
		return failed(ctx, err)
	case response.Error != nil:
		return Answer{Outcome: refused(response.Error), Code: response.Error.Code, Message: response.Error.Message}
	case err != nil:
		return Answer{Outcome: evidence.OutcomeProtocolError, Result: response.Result, Message: err.Error()}
	}
	var result map[string]json.RawMessage
	if jsontext.Unmarshal(response.Result, &result) != nil || result == nil {
		return Answer{Outcome: evidence.OutcomeProtocolError, Message: "the result is not an object"}
	}
	switch string(result["isError"]) {
	case "", "false":
		return Answer{Outcome: evidence.OutcomeOK, Result: response.Result}
	case "true":
		return Answer{Outcome: evidence.OutcomeToolError, Result: response.Result}
	}
	return Answer{Outcome: evidence.OutcomeProtocolError, Result: response.Result, Message: "isError of the result is no boolean"}
}

// refused is the outcome of a call that was answered with an error: the server's
// own, or the proxy's where the server gave no answer.
func refused(e *mcp.JSONRPCErrorDetails) evidence.Outcome {
	data, _ := e.Data.(map[string]any)
	switch outcome := evidence.Outcome(fmt.Sprint(data["waza"])); outcome {
	case evidence.OutcomeTransportError, evidence.OutcomeTimeout:
		return outcome
	}
	return evidence.OutcomeProtocolError
}
