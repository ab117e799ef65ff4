package script

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/agents/transcript"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/template"
	"github.com/waza-isolate/waza/mcp/client"
)

// defaultTimeout is the default timeout of one step's request.
const defaultTimeout = strictyaml.Duration(5 * time.Minute)

// expectAny accepts every outcome.
const expectAny evidence.Outcome = "any"

// callStep calls a tool.
type callStep struct {
	Server    text                `json:"server"`
	Tool      text                `json:"tool"`
	Arguments json.RawMessage     `json:"arguments,omitempty"`
	Expect    evidence.Outcome    `json:"expect,omitempty" enum:"ok tool_error protocol_error transport_error timeout any"`
	Timeout   strictyaml.Duration `json:"timeout,omitempty"`
	Tell      *bool               `json:"tell,omitempty"` // record it in the transcript

	arguments any
}

func (s *callStep) compile(c *compiler, at strictyaml.Path) {
	c.filled(at.With("server"), &s.Server)
	c.filled(at.With("tool"), &s.Tool)
	s.arguments = c.arguments(at.With("arguments"), s.Arguments)
	s.Expect = cmp.Or(s.Expect, evidence.OutcomeOK)
	s.Timeout = cmp.Or(s.Timeout, defaultTimeout)
}

// arguments reads an object, or an expression that gives one. The default is {}.
func (c *compiler) arguments(at strictyaml.Path, raw json.RawMessage) any {
	if raw == nil {
		return map[string]any{}
	}
	return valueOf[map[string]any](c, at, raw, "a mapping")
}

func (s *callStep) run(ctx context.Context, r *runner) (any, error) {
	target, err := r.target(s.Server, s.Tool, s.arguments)
	if err != nil {
		return nil, err
	}
	if err := r.known(target.server); err != nil {
		return nil, err
	}
	visible := s.Tell == nil || *s.Tell
	var reported transcript.Call
	if visible {
		reported = r.transcript.Start(target.name(), target.arguments)
	}
	a := answer{r.servers.Call(ctx, client.Call{Server: target.server, Tool: target.tool, Arguments: target.arguments}, time.Duration(s.Timeout))}
	if visible {
		reported.Complete(a.Outcome == evidence.OutcomeOK, a.report())
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.Expect != expectAny && s.Expect != a.Outcome {
		advice := ""
		if s.Expect == evidence.OutcomeOK && (a.Outcome == evidence.OutcomeToolError || a.Outcome == evidence.OutcomeProtocolError) {
			advice = fmt.Sprintf(" (if that is right, write expect: %s)", a.Outcome)
		}
		return nil, fmt.Errorf("%w: expected %s of %s on %s, got %s%s: %s",
			ErrAnswer, s.Expect, target.tool, target.server, a.Outcome, advice, excerpt(a.text()))
	}
	return a.value(), nil
}

// target is a call with its expressions evaluated.
type target struct {
	server, tool string
	arguments    json.RawMessage
}

func (r *runner) target(server, tool text, arguments any) (t target, err error) {
	if t.server, err = server.String(r.variables); err != nil {
		return t, err
	}
	if t.tool, err = tool.String(r.variables); err != nil {
		return t, err
	}
	evaluated, err := template.Fill(arguments, r.variables)
	if err != nil {
		return t, err
	}
	if _, err := typed[map[string]any](evaluated, "arguments must be an object and are"); err != nil {
		return t, err
	}
	t.arguments, err = evidence.Marshal(evaluated)
	return t, err
}

// name returns the tool's name in the transcript.
func (t target) name() string {
	if t.server == "" {
		return t.tool
	}
	return "mcp__" + t.server + "__" + t.tool
}

// known returns an error that wraps ErrConfig if mcp.json has no such server.
func (r *runner) known(server string) error {
	names, err := r.servers.Names()
	if err != nil || slices.Contains(names, server) {
		return err
	}
	return fmt.Errorf("%w has no server %q%s; it has: %s", ErrConfig, server, template.Suggestion(server, names), template.Quoted(names))
}

// toolsStep lists a server's tools.
type toolsStep struct {
	Server  text                `json:"server"`
	Timeout strictyaml.Duration `json:"timeout,omitempty"`
}

func (s *toolsStep) compile(c *compiler, at strictyaml.Path) {
	c.filled(at.With("server"), &s.Server)
	s.Timeout = cmp.Or(s.Timeout, defaultTimeout)
}

func (s *toolsStep) run(ctx context.Context, r *runner) (any, error) {
	server, err := s.Server.String(r.variables)
	if err != nil {
		return nil, err
	}
	if err := r.known(server); err != nil {
		return nil, err
	}
	return r.builtin("list_tools", map[string]any{"server": server}, func() (any, error) {
		tools, err := r.tools(ctx, server, time.Duration(s.Timeout))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return tools, err
	})
}

func (r *runner) tools(ctx context.Context, server string, timeout time.Duration) (any, error) {
	listed, err := r.servers.Tools(ctx, server, timeout)
	if err != nil {
		var failed *client.ListError
		errors.As(err, &failed)
		return nil, fmt.Errorf("%w: expected the tools of %s, got %s: %s", ErrAnswer, server, failed.Outcome, excerpt(failed.Message))
	}
	tools := make([]any, len(listed))
	for i, tool := range listed {
		tools[i] = map[string]any{"name": tool.Name, "description": tool.Description}
	}
	return tools, nil
}

// claimStep records in the transcript a call that was not made.
type claimStep struct {
	Server    text            `json:"server,omitempty"` // empty for a tool without a server
	Tool      text            `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`

	arguments, result any
}

func (s *claimStep) compile(c *compiler, at strictyaml.Path) {
	c.text(at.With("server"), &s.Server)
	c.filled(at.With("tool"), &s.Tool)
	s.arguments = c.arguments(at.With("arguments"), s.Arguments)
	s.result = c.value(at.With("result"), s.Result)
}

func (s *claimStep) run(_ context.Context, r *runner) (any, error) {
	target, err := r.target(s.Server, s.Tool, s.arguments)
	if err != nil {
		return nil, err
	}
	result, err := template.Fill(s.result, r.variables)
	if err != nil {
		return nil, err
	}
	raw, err := evidence.Marshal(result)
	if err != nil {
		return nil, err
	}
	r.transcript.Start(target.name(), target.arguments).Complete(true, raw)
	return nil, nil
}

// answer is the answer to a call, as following steps see it.
type answer struct{ client.Answer }

// result returns the decoded MCP result, or nil if the call failed without one.
func (a answer) result() map[string]any {
	if a.Message != "" || a.Result == nil {
		return nil
	}
	decoded, err := jsontext.Parse(a.Result)
	result, ok := decoded.(map[string]any)
	if err != nil || !ok {
		return nil
	}
	return result
}

// text returns the result's text content, or the error's message.
func (a answer) text() string {
	result := a.result()
	if result == nil {
		return a.Message
	}
	return textOf(result)
}

func textOf(result map[string]any) string {
	var texts []string
	content, _ := result["content"].([]any)
	for _, item := range content {
		fields, _ := item.(map[string]any)
		if s, ok := fields["text"].(string); ok && fields["type"] == "text" {
			texts = append(texts, s)
		}
	}
	return strings.Join(texts, "\n")
}

// value returns the value of the step for `as`.
func (a answer) value() map[string]any {
	value := map[string]any{
		"outcome":  string(a.Outcome),
		"is_error": a.Outcome != evidence.OutcomeOK,
		"text":     a.Message,
	}
	if a.Outcome == evidence.OutcomeProtocolError {
		value["code"] = number(a.Code)
	}
	result := a.result()
	if result == nil {
		return value
	}
	value["text"] = textOf(result)
	value["result"] = result
	if structured, ok := result["structuredContent"]; ok {
		value["structured"] = structured
	}
	return withJSON(value, textOf(result))
}

// report returns the call's result for the transcript.
func (a answer) report() json.RawMessage {
	if a.Result != nil {
		return a.Result
	}
	raw, _ := evidence.Marshal(map[string]any{"error": a.Message}) // a string always marshals
	return raw
}
