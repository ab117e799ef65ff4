package session

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
	mcpclient "github.com/waza-isolate/waza/mcp/client"
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
	a, err := s.call(ctx, c, timeout)
	if errors.Is(err, mcpclient.ErrGone) {
		a, _ = s.call(ctx, c, timeout)
	}
	return a
}

// call makes one call. If the server has ended the session it returns an error that wraps
// [mcpclient.ErrGone]; the next call opens another one (2025-11-25
// basic/transports, "Session Management").
func (s *Servers) call(ctx context.Context, c Call, timeout time.Duration) (Answer, error) {
	have, err := s.get(ctx, c.Server)
	if err != nil {
		return failed(ctx, err), nil
	}
	ctx, cancel := withTimeout(ctx, timeout)
	defer cancel()
	have.headers.more = have.mirrored(c)
	m, err := have.Ask(ctx, c.Tool, c.Arguments, c.Meta)
	have.headers.more = nil
	a := answered(ctx, m, err)
	if a.Outcome == evidence.OutcomeTransportError {
		s.drop(c.Server)
	}
	return a, err
}

// mirrored returns the headers that repeat arguments of a call.
func (c *conversation) mirrored(call Call) map[string]string {
	headers := map[string]string{}
	for _, a := range c.tools[call.Tool] {
		if value, ok := a.Value(call.Arguments); ok {
			headers[a.Header] = value
		}
	}
	return headers
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

// answered returns the answer to a call from the response as it came, or the client's error. The
// result counts as package capture takes it, even one without content. One that asks for input fails,
// since nobody can give it.
func answered(ctx context.Context, m jsonrpc.Message, err error) Answer {
	wrong := func(result json.RawMessage, message string) Answer {
		return Answer{Outcome: evidence.OutcomeProtocolError, Result: result, Message: message}
	}
	switch {
	case err != nil:
		return failed(ctx, err)
	case strings.HasPrefix(string(m.ID.Raw), `"`): // ours are numbers
		return wrong(nil, "the id of the server's answer is of another type than the request's")
	case m.Error != nil:
		said := jsontext.Text(jsontext.Member(m.Error, "message"))
		if said == "" {
			said = jsontext.Text(m.Error)
		}
		return Answer{Outcome: refused(m.Error), Code: jsonrpc.Code(m.Error), Message: said}
	case m.Result == nil && m.Odd != nil:
		return wrong(nil, "the server's answer is wrong: "+m.Odd.Error())
	}
	var result map[string]json.RawMessage
	if jsontext.Unmarshal(m.Result, &result) != nil || result == nil {
		return wrong(nil, "the result is not an object")
	}
	if jsontext.Text(result["resultType"]) == "input_required" {
		return wrong(m.Result, "the server requires input before it answers, and nobody gives any")
	}
	switch string(result["isError"]) {
	case "", "false":
		return Answer{Outcome: evidence.OutcomeOK, Result: m.Result}
	case "true":
		return Answer{Outcome: evidence.OutcomeToolError, Result: m.Result}
	}
	return wrong(m.Result, "isError of the result is not a boolean")
}

// refused returns the outcome of a call that was answered with an error, which may be the
// server's, or one that the proxy sent instead of the server's response.
func refused(failure json.RawMessage) evidence.Outcome {
	switch outcome := evidence.Outcome(jsontext.Text(jsontext.Member(jsontext.Member(failure, "data"), "waza"))); outcome {
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
	if errors.Is(err, mcpclient.ErrGone) {
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
	cursor := ""
	for seen := map[string]bool{}; ; {
		m, err := have.Page(ctx, catalog.Tools, cursor)
		if a := answered(ctx, m, err); err != nil {
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

// usable reads a tool's entry. It reports whether the tool can be called: a wrong declaration of what
// headers repeat prevents that, where the protocol has no sessions.
func (c *conversation) usable(entry json.RawMessage) (tool Tool, ok bool) {
	if jsontext.Unmarshal(entry, &tool) != nil || tool.Name == "" {
		return tool, false
	}
	if !c.Stateless() {
		return tool, true
	}
	c.tools[tool.Name], ok = mirror.In(tool.InputSchema)
	return tool, ok
}
