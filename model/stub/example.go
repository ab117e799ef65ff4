package stub

import (
	"encoding/json"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// schema is what of a JSON Schema says what an example is; Google's writes types in
// capitals.
type schema struct {
	Type       any               `json:"type"` // a name or a list of them
	Enum       []json.RawMessage `json:"enum"`
	Const      json.RawMessage   `json:"const"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
	Items      *schema           `json:"items"`
	AnyOf      []schema          `json:"anyOf"`
}

// maxExampleDepth bounds how deep an example goes.
const maxExampleDepth = 16

// example is a small JSON value that fits a schema, as far as its types and enums go.
func example(raw json.RawMessage) string {
	var s schema
	if jsontext.Unmarshal(raw, &s) != nil {
		return "{}"
	}
	encoded, err := encode(s.example(0))
	if err != nil {
		return "{}"
	}
	return string(encoded)
}

func (s schema) example(depth int) any {
	switch {
	case depth > maxExampleDepth:
		return nil
	case len(s.Const) > 0:
		return s.Const
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.AnyOf) > 0:
		return s.AnyOf[0].example(depth + 1)
	}
	switch s.kind() {
	case "string":
		return neutral
	case "integer", "number":
		return 0
	case "boolean":
		return false
	case "array":
		return []any{}
	case "null":
		return nil
	}
	made := map[string]any{}
	for _, name := range s.Required {
		if _, done := made[name]; done {
			continue // a list that says so again and again is costly at every depth
		}
		made[name] = s.Properties[name].example(depth + 1)
	}
	return made
}

func (s schema) kind() string {
	switch t := s.Type.(type) {
	case string:
		return strings.ToLower(t)
	case []any:
		if len(t) > 0 {
			name, _ := t[0].(string)
			return strings.ToLower(name)
		}
	}
	return ""
}
