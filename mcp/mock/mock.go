// Package mock implements mock MCP servers as defined by mcp_mocks in an eval. A call is
// answered with the first response whose conditions it meets; if there is none, with a tool
// error.
//
// A mock server is a [process.Process] without a program: it runs in the runner, behind the
// same proxy as any other server. The package knows nothing about trials.
package mock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/schema"
)

// Server is a mock server.
type Server struct {
	Name  string           `json:"name"`
	Tools map[string]*Tool `json:"tools"`
}

// Tool is a tool of a mock server.
type Tool struct {
	Description string          `json:"description,omitempty" jsonschema:"description in the list of tools"`
	InputSchema json.RawMessage `json:"input_schema,omitempty" jsonschema:"JSON Schema of the arguments in the list of tools; default any object"`
	Annotations json.RawMessage `json:"annotations,omitempty" jsonschema:"annotations in the list of tools, such as readOnlyHint"`
	Responses   []*Response     `json:"responses" jsonschema:"answers; the first that matches a call is given"`
}

// Response is the response to calls that meet all its conditions.
type Response struct {
	Match       json.RawMessage   `json:"match,omitempty" jsonschema:"the arguments, whole; {} matches every call"`
	MatchSchema json.RawMessage   `json:"match_schema,omitempty" jsonschema:"JSON Schema that the arguments fit"`
	MatchRegex  map[string]string `json:"match_regex,omitempty" jsonschema:"regular expressions that arguments match, by name; one that is no string is matched as JSON"`
	Return      json.RawMessage   `json:"return,omitempty" jsonschema:"result, as JSON"`
	Error       string            `json:"error,omitempty" jsonschema:"text of a tool error, in place of a result"`
	Sequence    []*Step           `json:"sequence,omitempty" jsonschema:"in place of return and error, one answer for each call that matches, in order; later calls get a tool error"`

	match  any
	schema *schema.Schema
	regex  map[string]*regexp.Regexp
}

// Step is one answer of a sequence.
type Step struct {
	Return  json.RawMessage `json:"return,omitempty" jsonschema:"result, as JSON"`
	Error   string          `json:"error,omitempty" jsonschema:"text of a tool error, in place of a result"`
	DelayMS int             `json:"delay_ms,omitempty" min:"0" max:"604800000" jsonschema:"milliseconds before the answer; default 0"`
}

// Compile prepares a server for use. It reports everything that is wrong with it.
func (s *Server) Compile() error {
	var errs []error
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
			if err := response.compile(); err != nil {
				errs = append(errs, fmt.Errorf("tool %q: responses[%d]: %w", name, i, err))
			}
		}
	}
	return errors.Join(errs...)
}

var errAnswer = errors.New("set return or error, and only one of them")

func (r *Response) compile() (err error) {
	if r == nil {
		return errAnswer
	}
	if r.Sequence != nil {
		if r.Return != nil || r.Error != "" || len(r.Sequence) == 0 {
			return errors.New("give it a sequence of at least one step, or return, or error")
		}
		for i, step := range r.Sequence {
			if step == nil || (step.Return == nil) == (step.Error == "") {
				return fmt.Errorf("sequence[%d]: %w", i, errAnswer)
			}
		}
	} else if (r.Return == nil) == (r.Error == "") {
		return errAnswer
	}
	if r.Match != nil {
		if r.match, err = jsontext.Parse(r.Match); err != nil {
			return fmt.Errorf("match: %w", err)
		}
		switch arguments, ok := r.match.(map[string]any); {
		case !ok:
			return errors.New("match must be a mapping, the arguments of the call")
		case len(arguments) == 0: // no condition, as in upstream waza
			r.match = nil
		}
	}
	if r.MatchSchema != nil {
		if r.schema, err = schema.Compile(r.MatchSchema); err != nil {
			return fmt.Errorf("match_schema: %w", err)
		}
	}
	r.regex = map[string]*regexp.Regexp{}
	for name, expression := range r.MatchRegex {
		if r.regex[name], err = regexp.Compile(expression); err != nil {
			return fmt.Errorf("match_regex.%s: %w", name, err)
		}
	}
	return nil
}

// answer returns the response to a call, or nil if none matches.
func (t *Tool) answer(arguments map[string]any) *Response {
	for _, r := range t.Responses {
		if r.matches(arguments) {
			return r
		}
	}
	return nil
}

func (r *Response) matches(arguments map[string]any) bool {
	if r.match != nil && !jsontext.Equal(r.match, arguments) {
		return false
	}
	if r.schema != nil && !r.schema.Fits(arguments) {
		return false
	}
	for name, expression := range r.regex {
		value, ok := arguments[name]
		if !ok || !expression.MatchString(textOf(value)) {
			return false
		}
	}
	return true
}

// textOf returns a string unchanged, and any other value as JSON.
func textOf(value any) string {
	if s, ok := value.(string); ok {
		return s
	}
	data, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(data)
}

// step returns the answer to the nth call that the response is given to, from 0. There is none
// after the last of a sequence.
func (r *Response) step(n int) (*Step, bool) {
	switch {
	case r.Sequence == nil:
		return &Step{Return: r.Return, Error: r.Error}, true
	case n < len(r.Sequence):
		return r.Sequence[n], true
	}
	return nil, false
}

// result returns the MCP result of a call: as upstream waza, the value's JSON as text. An object
// is also structured content.
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
