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
	Responses   []*Response     `json:"responses" jsonschema:"answers; the first that matches a call is given"`
}

// Response is the response to calls that meet all its conditions.
type Response struct {
	Match       json.RawMessage   `json:"match,omitempty" jsonschema:"the arguments, whole"`
	MatchSchema json.RawMessage   `json:"match_schema,omitempty" jsonschema:"JSON Schema that the arguments fit"`
	MatchRegex  map[string]string `json:"match_regex,omitempty" jsonschema:"regular expressions that arguments match, by name; one that is no string is matched as JSON"`
	Return      json.RawMessage   `json:"return,omitempty" jsonschema:"result; a string is its text, all else is JSON"`
	Error       string            `json:"error,omitempty" jsonschema:"text of a tool error, in place of a result"`

	match  any
	schema *schema.Schema
	regex  map[string]*regexp.Regexp
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
		for i, response := range tool.Responses {
			if err := response.compile(); err != nil {
				errs = append(errs, fmt.Errorf("tool %q: responses[%d]: %w", name, i, err))
			}
		}
	}
	return errors.Join(errs...)
}

func (r *Response) compile() (err error) {
	switch {
	case r == nil || r.Return == nil && r.Error == "":
		return errors.New("set return or error")
	case r.Return != nil && r.Error != "":
		return errors.New("set only one of return and error")
	}
	if r.Match != nil {
		if r.match, err = jsontext.Parse(r.Match); err != nil {
			return fmt.Errorf("match: %w", err)
		}
		if _, ok := r.match.(map[string]any); !ok {
			return errors.New("match must be a mapping, the arguments of the call")
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

// result returns the MCP result of a call as text, and an object also as structured
// content.
func (r *Response) result() map[string]any {
	if r.Error != "" {
		return toolError(r.Error)
	}
	var asText string
	if jsontext.Unmarshal(r.Return, &asText) != nil {
		var compact bytes.Buffer
		if err := json.Compact(&compact, r.Return); err != nil {
			return toolError(err.Error())
		}
		asText = compact.String()
	}
	result := map[string]any{"content": []any{map[string]any{"type": "text", "text": asText}}}
	if bytes.HasPrefix(bytes.TrimSpace(r.Return), []byte("{")) {
		result["structuredContent"] = r.Return
	}
	return result
}

func toolError(message string) map[string]any {
	return map[string]any{"isError": true, "content": []any{map[string]any{"type": "text", "text": message}}}
}
