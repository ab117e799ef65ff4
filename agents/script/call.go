package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/agents/internal/session"
	"github.com/waza-isolate/waza/agents/transcript"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/template"
)

// defaultTimeout is the default timeout of one step's request.
const defaultTimeout = 5 * time.Minute

// expectAny accepts every outcome.
const expectAny evidence.Outcome = "any"

func expectations() []string {
	return []string{
		string(evidence.OutcomeOK), string(evidence.OutcomeToolError), string(evidence.OutcomeProtocolError),
		string(evidence.OutcomeTransportError), string(evidence.OutcomeTimeout), string(expectAny),
	}
}

// callStep calls a tool.
type callStep struct {
	server, tool text
	arguments    any
	expect       evidence.Outcome
	timeout      time.Duration
	hidden       bool // not recorded in the transcript
}

func (p *parser) call(n node) action {
	f := p.fields(n, "server", "tool", "arguments", "expect", "timeout", "tell")
	return callStep{
		server:    p.filledText(f.need("server")),
		tool:      p.filledText(f.need("tool")),
		arguments: p.arguments(f),
		expect:    p.expect(f),
		timeout:   p.timeout(f),
		hidden:    !p.tell(f),
	}
}

// tell returns whether a call is recorded in the transcript, by default true.
func (p *parser) tell(f fields) bool {
	tell := true
	if f.has("tell") {
		p.decode(f.get("tell"), &tell, "true or false")
	}
	return tell
}

// arguments reads an object, or an expression for one; {} by default.
func (p *parser) arguments(f fields) any {
	if !f.has("arguments") {
		return map[string]any{}
	}
	return valueOf[map[string]any](p, f.get("arguments"), "must be an object")
}

func (p *parser) expect(f fields) evidence.Outcome {
	if !f.has("expect") {
		return evidence.OutcomeOK
	}
	n := f.get("expect")
	expect := p.plainString(n)
	if expect != "" && !slices.Contains(expectations(), expect) {
		p.failf(n.path, "must be one of %s%s", strings.Join(expectations(), ", "), suggestion(expect, expectations()))
	}
	return evidence.Outcome(expect)
}

func (p *parser) timeout(f fields) time.Duration {
	if !f.has("timeout") {
		return defaultTimeout
	}
	return p.duration(f.get("timeout"))
}

func (s callStep) run(ctx context.Context, r *runner) (any, error) {
	target, err := r.target(s.server, s.tool, s.arguments)
	if err != nil {
		return nil, err
	}
	if err := r.known(target.server); err != nil {
		return nil, err
	}
	var reported transcript.Call
	if !s.hidden {
		reported = r.transcript.Start(target.name(), target.arguments)
	}
	a := answer{r.servers.Call(ctx, session.Call{Server: target.server, Tool: target.tool, Arguments: target.arguments}, s.timeout)}
	if !s.hidden {
		reported.Complete(a.Outcome == evidence.OutcomeOK, a.report())
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.expect != expectAny && s.expect != a.Outcome {
		return nil, fmt.Errorf("%w: expected %s of %s on %s, got %s: %s",
			ErrUnexpected, s.expect, target.tool, target.server, a.Outcome, excerpt(a.text()))
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
	return fmt.Errorf("%w has no server %q%s; it has: %s", ErrConfig, server, suggestion(server, names), quoteAll(names))
}

// toolsStep lists a server's tools.
type toolsStep struct {
	server  text
	timeout time.Duration
}

func (p *parser) tools(n node) action {
	f := p.fields(n, "server", "timeout")
	return toolsStep{server: p.filledText(f.need("server")), timeout: p.timeout(f)}
}

func (s toolsStep) run(ctx context.Context, r *runner) (any, error) {
	server, err := s.server.String(r.variables)
	if err != nil {
		return nil, err
	}
	if err := r.known(server); err != nil {
		return nil, err
	}
	return r.builtin("list_tools", map[string]any{"server": server}, func() (any, error) {
		tools, err := r.tools(ctx, server, s.timeout)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return tools, err
	})
}

func (r *runner) tools(ctx context.Context, server string, timeout time.Duration) (any, error) {
	listed, err := r.servers.Tools(ctx, server, timeout)
	if err != nil {
		var failed *session.ListError
		errors.As(err, &failed)
		return nil, fmt.Errorf("%w: expected the tools of %s, got %s: %s", ErrUnexpected, server, failed.Outcome, excerpt(failed.Message))
	}
	tools := make([]any, len(listed))
	for i, tool := range listed {
		tools[i] = map[string]any{"name": tool.Name, "description": tool.Description}
	}
	return tools, nil
}

// claimStep records a call in the transcript that was not made.
type claimStep struct {
	server    text // empty for a tool without server
	tool      text
	arguments any
	result    any
}

func (p *parser) claim(n node) action {
	f := p.fields(n, "server", "tool", "arguments", "result")
	return claimStep{
		server:    p.text(f.get("server")),
		tool:      p.filledText(f.need("tool")),
		arguments: p.arguments(f),
		result:    p.value(f.get("result")),
	}
}

func (s claimStep) run(_ context.Context, r *runner) (any, error) {
	target, err := r.target(s.server, s.tool, s.arguments)
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

// answer is the answer to a call, for following steps.
type answer struct{ session.Answer }

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

// value returns the value for `as`.
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
	raw, err := evidence.Marshal(map[string]any{"error": a.Message})
	if err != nil {
		return nil
	}
	return raw
}
