package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/waza-isolate/waza/runner/evidence"
)

// answer is how a call ended, as the agent sees it.
type answer struct {
	outcome evidence.Outcome
	raw     json.RawMessage // the MCP result as it came; nil without one
	result  map[string]any  // the same, decoded
	code    int             // of a protocol error
	message string          // where there is no result
}

// failed is the answer where none came.
func failed(ctx context.Context, err error) answer {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return answer{outcome: evidence.OutcomeTimeout, message: context.Cause(ctx).Error()}
	}
	message := "no answer"
	if err != nil {
		message = err.Error()
	}
	return answer{outcome: evidence.OutcomeTransportError, message: message}
}

// answered tells from the wire's answer and the client's error how a call ended.
// The client's error alone is a result that is not the protocol's, or one that
// asks for input that nobody can give.
func answered(ctx context.Context, response *transport.JSONRPCResponse, err error) answer {
	switch {
	case response == nil || response.Error == nil && response.Result == nil:
		return failed(ctx, err)
	case response.Error != nil:
		return answer{outcome: refused(response.Error), code: response.Error.Code, message: response.Error.Message}
	case err != nil:
		return answer{outcome: evidence.OutcomeProtocolError, raw: response.Result, message: err.Error()}
	}
	decoded, err := decodeJSON(response.Result)
	result, ok := decoded.(map[string]any)
	if err != nil || !ok {
		return answer{outcome: evidence.OutcomeProtocolError, message: "the result is not an object"}
	}
	a := answer{outcome: evidence.OutcomeOK, raw: response.Result, result: result}
	if result["isError"] == true {
		a.outcome = evidence.OutcomeToolError
	}
	return a
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

// text is the result's text content, or the error's message.
func (a answer) text() string {
	if a.result == nil {
		return a.message
	}
	var texts []string
	content, _ := a.result["content"].([]any)
	for _, item := range content {
		fields, _ := item.(map[string]any)
		if s, ok := fields["text"].(string); ok && fields["type"] == "text" {
			texts = append(texts, s)
		}
	}
	return strings.Join(texts, "\n")
}

// value is what `as` names.
func (a answer) value() map[string]any {
	value := map[string]any{
		"outcome":  string(a.outcome),
		"is_error": a.outcome != evidence.OutcomeOK,
		"text":     a.text(),
	}
	if a.outcome == evidence.OutcomeProtocolError {
		value["code"] = number(a.code)
	}
	if a.result == nil {
		return value
	}
	value["result"] = a.result
	if structured, ok := a.result["structuredContent"]; ok {
		value["structured"] = structured
	}
	return withJSON(value, a.text())
}

// report is what the transcript keeps as the call's result.
func (a answer) report() json.RawMessage {
	if a.raw != nil {
		return a.raw
	}
	raw, err := encodeJSON(map[string]any{"error": a.message})
	if err != nil {
		return nil
	}
	return raw
}
