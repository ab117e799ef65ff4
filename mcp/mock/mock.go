// Package mock plays MCP servers: it answers MCP requests from one side of a cassette. Mock
// servers, which mcp_mocks of an eval defines, are converted to such a side; a call without an
// answer gets a tool error.
//
// A mock server is a [process.Process] without a program: it runs in the runner, behind the
// same proxy as any other server. The package knows nothing about trials.
package mock

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/schema"
)

// Server is a server that is played.
type Server struct {
	Name  string           `json:"name"`
	Tools map[string]*Tool `json:"tools,omitempty"` // of mcp_mocks

	side   *cassette.Side
	played bool
}

// Played returns a server that answers from its side in a cassette. Conditions of entries are on
// the tool and arguments of a call, on the method and params of other requests, and on trial, a
// number, and sender, an [evidence.Sender]. A value is an object with a result or an error.
func Played(name string, side *cassette.Side) *Server {
	return &Server{Name: name, side: side, played: true}
}

// CheckSide returns an error unless the side has valid answers of a server.
func CheckSide(side *cassette.Side) error {
	for i, e := range side.Entries {
		for _, a := range e.All() {
			if jsontext.Member(a.Value, "result") == nil && jsontext.Member(a.Value, "error") == nil {
				return fmt.Errorf("%s: the value of an answer must be an object with the result or the error that the server answered with", side.Place(i))
			}
		}
	}
	return nil
}

// IsPlayed reports whether the server is from a cassette, not from mcp_mocks.
func (s *Server) IsPlayed() bool { return s != nil && s.played }

// Tool is a tool of a mock server.
type Tool struct {
	Description string          `json:"description,omitempty" jsonschema:"description in the list of tools"`
	InputSchema json.RawMessage `json:"input_schema,omitempty" jsonschema:"JSON Schema of the arguments in the list of tools; default any object"`
	Annotations json.RawMessage `json:"annotations,omitempty" jsonschema:"annotations in the list of tools, such as readOnlyHint"`
	Responses   []*Response     `json:"responses" jsonschema:"answers; the first that matches a call is given"`
}

// Response is the response to calls that meet all its conditions.
type Response struct {
	Match       json.RawMessage   `json:"match,omitempty" jsonschema:"the complete arguments, compared as JSON; {} matches every call"`
	MatchSchema json.RawMessage   `json:"match_schema,omitempty" jsonschema:"JSON Schema that the arguments fit"`
	MatchRegex  map[string]string `json:"match_regex,omitempty" jsonschema:"RE2 expressions to find in arguments, by name; an argument that is not a string is matched as JSON"`
	Return      json.RawMessage   `json:"return,omitempty" jsonschema:"result: its text is the value as JSON; a mapping is also its structuredContent"`
	Error       string            `json:"error,omitempty" jsonschema:"text of a tool error, in place of a result"`
	Sequence    []*Step           `json:"sequence,omitempty" jsonschema:"in place of return and error, one answer for each call that matches, in order; later calls get a tool error"`
}

// Step is one answer of a sequence.
type Step struct {
	Return  json.RawMessage `json:"return,omitempty" jsonschema:"result, as JSON"`
	Error   string          `json:"error,omitempty" jsonschema:"text of a tool error, in place of a result"`
	DelayMS int             `json:"delay_ms,omitempty" min:"0" max:"604800000" jsonschema:"milliseconds before the answer; default 0"`
}

// Compile prepares a server for use. Its error lists all mistakes.
func (s *Server) Compile() error {
	var errs []error
	s.side = &cassette.Side{}
	for _, name := range slices.Sorted(maps.Keys(s.Tools)) {
		tool := s.Tools[name]
		if tool == nil || len(tool.Responses) == 0 {
			errs = append(errs, fmt.Errorf("tool %q has no responses; add at least one", name))
			continue
		}
		if tool.InputSchema == nil {
			tool.InputSchema = json.RawMessage(`{"type":"object"}`)
		}
		if _, err := schema.Compile(tool.InputSchema); err != nil {
			errs = append(errs, fmt.Errorf("tool %q: input_schema: %w", name, err))
		}
		if given := jsontext.TrimSpace(tool.Annotations); len(given) > 0 && given[0] != '{' {
			errs = append(errs, fmt.Errorf("tool %q: annotations must be a mapping", name))
		}
		for i, response := range tool.Responses {
			entry, err := response.entry(name)
			if err != nil {
				errs = append(errs, fmt.Errorf("tool %q: responses[%d]: %w", name, i, err))
			}
			s.side.Entries = append(s.side.Entries, entry)
		}
	}
	errs = append(errs, s.describe())
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return s.side.Compile()
}

// describe adds the entries for initialize and the list of tools.
func (s *Server) describe() error {
	tools := []any{}
	for _, name := range slices.Sorted(maps.Keys(s.Tools)) {
		tool := s.Tools[name]
		if tool == nil {
			continue // reported
		}
		listed := map[string]any{"name": name, "description": tool.Description, "inputSchema": tool.InputSchema}
		if len(tool.Annotations) > 0 {
			listed["annotations"] = tool.Annotations
		}
		tools = append(tools, listed)
	}
	for method, result := range map[string]any{
		methodList: map[string]any{"tools": tools},
		methodInitialize: map[string]any{
			"protocolVersion": versions[len(versions)-1], "capabilities": map[string]any{"tools": struct{}{}},
			"serverInfo": map[string]any{"name": s.Name, "version": "mock"},
		},
	} {
		value, err := jsontext.Marshal(map[string]any{"result": result})
		if err != nil {
			return err
		}
		kind := match.Matchers{"method": cassette.Matcher("equals", method)}
		s.side.Entries = append(s.side.Entries, cassette.Entry{Kind: kind, Answer: &cassette.Answer{Value: value}})
	}
	return nil
}

var errAnswer = errors.New("set return or error, and only one of them")

// entry converts a response of a tool to an entry.
func (r *Response) entry(tool string) (e cassette.Entry, err error) {
	if r == nil {
		return e, errAnswer
	}
	e.Kind = match.Matchers{"tool": cassette.Matcher("equals", tool)}
	if err := r.conditions(&e); err != nil {
		return e, err
	}
	if r.Sequence == nil {
		answer, err := (&Step{Return: r.Return, Error: r.Error}).answer()
		e.Answer = &answer
		return e, err
	}
	if r.Return != nil || r.Error != "" || len(r.Sequence) == 0 {
		return e, errors.New("give it a sequence of at least one step, or return, or error")
	}
	for i, step := range r.Sequence {
		answer, err := step.answer()
		if err != nil {
			return e, fmt.Errorf("sequence[%d]: %w", i, err)
		}
		e.Answers = append(e.Answers, answer)
	}
	return e, nil
}

// conditions adds the conditions of a response to its entry.
func (r *Response) conditions(to *cassette.Entry) error {
	to.Match = match.Matchers{}
	if r.Match != nil {
		given, err := jsontext.Parse(r.Match)
		if err != nil {
			return fmt.Errorf("match: %w", err)
		}
		switch given, ok := given.(map[string]any); {
		case !ok:
			return errors.New("match must be a mapping, the arguments of the call")
		case len(given) > 0: // an empty condition matches everything, as in upstream waza
			to.Match["arguments"] = cassette.Matcher("equals", given)
		}
	}
	if r.MatchSchema != nil {
		if _, err := schema.Compile(r.MatchSchema); err != nil {
			return fmt.Errorf("match_schema: %w", err)
		}
		where := to.Match
		if where["arguments"] != nil {
			where = to.Kind // combines both conditions
		}
		where["arguments"] = cassette.Matcher("json_schema", r.MatchSchema)
	}
	for name, expression := range r.MatchRegex {
		if _, err := regexp.Compile(expression); err != nil {
			return fmt.Errorf("match_regex.%s: %w", name, err)
		}
		to.Match["arguments."+name] = cassette.Matcher("regex", cmp.Or(expression, "(?:)"))
	}
	return nil
}

// answer converts a step to an answer.
func (s *Step) answer() (a cassette.Answer, err error) {
	if s == nil || (s.Return == nil) == (s.Error == "") {
		return a, errAnswer
	}
	value, err := jsontext.Marshal(map[string]any{"result": s.result()})
	return cassette.Answer{Value: value, DelayMS: s.DelayMS}, err
}

// result returns the MCP result of a call. As in upstream waza, it is the value's JSON as text; an
// object is also structured content.
func (s *Step) result() map[string]any {
	if s.Error != "" {
		return toolError(s.Error)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, s.Return); err != nil {
		return toolError(err.Error())
	}
	result := map[string]any{"content": []any{map[string]any{"type": "text", "text": compact.String()}}}
	if bytes.HasPrefix(compact.Bytes(), []byte("{")) {
		result["structuredContent"] = s.Return
	}
	return result
}

func toolError(message string) map[string]any {
	return map[string]any{"isError": true, "content": []any{map[string]any{"type": "text", "text": message}}}
}
