package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/mirror"
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
	have, err := s.get(ctx, c.Server)
	if err != nil {
		return failed(ctx, err)
	}
	ctx, cancel := withTimeout(ctx, timeout)
	defer cancel()
	m, err := have.ask(ctx, c)
	a := have.answered(ctx, m, err)
	if a.Outcome == evidence.OutcomeTransportError {
		s.drop(c.Server)
	}
	return a
}

// ask calls a tool, with the headers that repeat its arguments, and returns the response as
// received.
func (s *Session) ask(ctx context.Context, c Call) (jsonrpc.Message, error) {
	given := params{"name": c.Tool}
	if len(c.Arguments) > 0 {
		given["arguments"] = c.Arguments
	}
	if c.Meta != nil {
		given["_meta"] = c.Meta
	}
	s.headers = map[string]string{}
	defer func() { s.headers = nil }()
	for _, a := range s.mirrored[c.Tool] {
		if value, ok := a.Value(c.Arguments); ok {
			s.headers[a.Header] = value
		}
	}
	return s.request(ctx, "tools/call", given)
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
		message = brief(err).Error()
	}
	return Answer{Outcome: evidence.OutcomeTransportError, Message: message}
}

// answered returns the answer to a call from the response as received, or from the client's error.
func (s *Session) answered(ctx context.Context, m jsonrpc.Message, err error) Answer {
	if err != nil {
		return failed(ctx, err)
	}
	outcome, message := s.Outcome(m)
	a := Answer{Outcome: outcome, Result: m.Result, Message: message}
	if m.Error != nil {
		a.Result, a.Code = nil, jsonrpc.Code(m.Error)
	}
	return a
}

// Outcome returns the outcome of a call from the response as received, and the message of an error,
// unless the tool reports it. It judges responses as package capture does, even those without
// content. A response that asks for input is a failure, since nobody can provide it.
func (s *Session) Outcome(m jsonrpc.Message) (outcome evidence.Outcome, message string) {
	const wrong = evidence.OutcomeProtocolError
	switch {
	case strings.HasPrefix(string(m.ID.Raw), `"`): // ids of this client are numbers
		return wrong, "the id of the server's answer is of another type than the request's"
	case m.Error != nil:
		if message = jsontext.Text(jsontext.Member(m.Error, "message")); message == "" {
			message = jsontext.Text(m.Error)
		}
		return refused(m.Error), message
	case m.Result == nil && m.Odd != nil:
		return wrong, "the server's answer is wrong: " + m.Odd.Error()
	}
	var result map[string]json.RawMessage
	if jsontext.Unmarshal(m.Result, &result) != nil || result == nil {
		return wrong, "the result is not an object"
	}
	if jsontext.Repeats(m.Result, "isError", "resultType", "content", "structuredContent") {
		return wrong, "a key of the result comes twice"
	}
	if s.era == eraStateless && jsontext.Text(result["resultType"]) == "input_required" {
		return wrong, "the server requires input before it answers, and nobody gives any"
	}
	switch string(result["isError"]) {
	case "", "false":
		return evidence.OutcomeOK, ""
	case "true":
		return evidence.OutcomeToolError, ""
	}
	return wrong, "isError of the result is not a boolean"
}

// refused returns the outcome of a call that was answered with an error, by the server or by the
// proxy.
func refused(failure json.RawMessage) evidence.Outcome {
	switch outcome := evidence.Outcome(jsontext.Text(jsontext.Member(jsontext.Member(failure, "data"), "waza"))); outcome {
	case evidence.OutcomeTransportError, evidence.OutcomeTimeout:
		return outcome
	}
	return evidence.OutcomeProtocolError
}

// Limits of a server's list of tools.
const maxTools = 4096

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
	cursor := ""
	for seen := map[string]bool{}; ; {
		m, err := have.Page(ctx, catalog.Tools, cursor)
		if a := have.answered(ctx, m, err); err != nil {
			return nil, err
		} else if a.Outcome != evidence.OutcomeOK {
			return nil, errors.New(a.Message)
		}
		for entry := range jsontext.Elements(jsontext.Member(m.Result, "tools")) {
			if tool, ok := have.usable(entry); ok {
				tools = append(tools, tool)
			}
		}
		if len(tools) > maxTools {
			return nil, fmt.Errorf("the server lists more than %d tools", maxTools)
		}
		seen[cursor] = true
		if cursor = jsontext.Text(jsontext.Member(m.Result, "nextCursor")); cursor == "" {
			return tools, nil
		}
		if seen[cursor] || len(seen) == maxPages {
			return nil, errors.New("the server's list of tools does not end")
		}
	}
}

// usable reads a tool's entry. It reports whether the tool can be called: in revisions without
// sessions, an invalid x-mcp-header annotation prevents that.
func (s *Session) usable(entry json.RawMessage) (tool Tool, ok bool) {
	if jsontext.Unmarshal(entry, &tool) != nil || tool.Name == "" {
		return tool, false
	}
	if s.era == eraSessions {
		return tool, true
	}
	if s.mirrored == nil {
		s.mirrored = map[string][]mirror.Argument{}
	}
	s.mirrored[tool.Name], ok = mirror.In(tool.InputSchema)
	return tool, ok
}
