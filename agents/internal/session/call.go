package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// Call is a call of a tool. Arguments is an object. Meta is the request's _meta; may be nil.
type Call struct {
	Server, Tool string
	Arguments    json.RawMessage
	Meta         map[string]any
}

// Answer is the result of a call, as the agent sees it.
type Answer struct {
	Outcome evidence.Outcome
	Result  json.RawMessage // the MCP result as received; nil if there is none
	Code    int             // of a protocol error
	Message string          // of an error, unless the tool reports it
}

// Call makes one call within timeout, which does not include opening a session: the proxy
// limits that.
func (s *Servers) Call(ctx context.Context, c Call, timeout time.Duration) Answer {
	a, err := s.call(ctx, c, timeout)
	if errors.Is(err, transport.ErrSessionTerminated) {
		a, _ = s.call(ctx, c, timeout)
	}
	return a
}

// call makes one call. If the server has ended the session it returns an error that wraps
// [transport.ErrSessionTerminated]; the next call opens another one (2025-11-25
// basic/transports, "Session Management").
func (s *Servers) call(ctx context.Context, c Call, timeout time.Duration) (Answer, error) {
	have, err := s.get(ctx, c.Server)
	if err != nil {
		return failed(ctx, err), nil
	}
	ctx, cancel := withTimeout(ctx, timeout)
	defer cancel()
	inSession := have.wire.GetSessionId() != ""
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
	if !inSession {
		err = nil
	}
	return a, err
}

func withTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v", timeout))
}

// failed returns the answer to a call without response.
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

// answered returns the answer to a call from the response on the wire and the client's error. The
// result counts as package capture takes it, even if the client rejects it, such as one without
// content. One that asks for input fails, since nobody can give it.
func answered(ctx context.Context, response *transport.JSONRPCResponse, err error) Answer {
	switch {
	case response == nil || response.Error == nil && response.Result == nil:
		return failed(ctx, err)
	case response.Error != nil:
		return Answer{Outcome: refused(response.Error), Code: response.Error.Code, Message: response.Error.Message}
	}
	var result map[string]json.RawMessage
	if jsontext.Unmarshal(response.Result, &result) != nil || result == nil {
		return Answer{Outcome: evidence.OutcomeProtocolError, Message: "the result is not an object"}
	}
	if err != nil && jsontext.Text(result["resultType"]) == "input_required" {
		return Answer{Outcome: evidence.OutcomeProtocolError, Result: response.Result, Message: err.Error()}
	}
	switch string(result["isError"]) {
	case "", "false":
		return Answer{Outcome: evidence.OutcomeOK, Result: response.Result}
	case "true":
		return Answer{Outcome: evidence.OutcomeToolError, Result: response.Result}
	}
	return Answer{Outcome: evidence.OutcomeProtocolError, Result: response.Result, Message: "isError of the result is not a boolean"}
}

// refused returns the outcome of a call that was answered with an error, which may be the
// server's, or one that the proxy sent instead of the server's response.
func refused(e *mcp.JSONRPCErrorDetails) evidence.Outcome {
	data, _ := e.Data.(map[string]any)
	switch outcome := evidence.Outcome(fmt.Sprint(data["waza"])); outcome {
	case evidence.OutcomeTransportError, evidence.OutcomeTimeout:
		return outcome
	}
	return evidence.OutcomeProtocolError
}

// Limits of a server's list of tools.
const (
	maxTools = 4096
	maxPages = 256
)

// Tool is a tool as its server lists it.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"` // as received
}

// ListError means that a server's tools could not be listed.
type ListError struct {
	Outcome evidence.Outcome
	Message string
}

func (e *ListError) Error() string { return e.Message }

// Tools lists a server's tools within timeout, without those that cannot be called over HTTP. Its
// errors are of type [*ListError].
func (s *Servers) Tools(ctx context.Context, server string, timeout time.Duration) ([]Tool, error) {
	tools, err := s.list(ctx, server, timeout)
	if errors.Is(err, transport.ErrSessionTerminated) {
		s.drop(server)
		tools, err = s.list(ctx, server, timeout)
	}
	if err != nil {
		a := failed(ctx, err)
		return nil, &ListError{Outcome: a.Outcome, Message: a.Message}
	}
	return tools, nil
}

func (s *Servers) list(ctx context.Context, server string, timeout time.Duration) ([]Tool, error) {
	have, err := s.get(ctx, server)
	if err != nil {
		return nil, err
	}
	ctx, cancel := withTimeout(ctx, timeout)
	defer cancel()
	var tools []Tool
	var request mcp.ListToolsRequest
	for seen := map[mcp.Cursor]bool{}; ; {
		page, err := have.client.ListToolsByPage(ctx, request)
		if err != nil {
			return nil, err
		}
		more, err := have.page(page)
		if err != nil {
			return nil, err
		}
		if tools = append(tools, more...); len(tools) > maxTools {
			return nil, fmt.Errorf("the server lists more than %d tools", maxTools)
		}
		seen[request.Params.Cursor] = true
		if page.NextCursor == "" {
			return tools, nil
		}
		if request.Params.Cursor = page.NextCursor; seen[page.NextCursor] || len(seen) == maxPages {
			return nil, errors.New("the server's list of tools does not end")
		}
	}
}

// page returns the usable tools of the last page as received, because the client's types lose
// digits of numbers.
func (c conversation) page(usable *mcp.ListToolsResult) ([]Tool, error) {
	var raw struct {
		Tools []Tool `json:"tools"`
	}
	if err := jsontext.Unmarshal(c.wire.answer.Result, &raw); err != nil {
		return nil, err
	}
	can := map[string]bool{}
	for _, tool := range usable.Tools {
		can[tool.Name] = true
	}
	var tools []Tool
	for _, tool := range raw.Tools {
		if can[tool.Name] {
			tools = append(tools, tool)
		}
	}
	return tools, nil
}
