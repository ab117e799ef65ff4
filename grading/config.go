package grading

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// NewConfig returns a pointer to the empty config of a grader type, ready to be
// decoded into, and whether there is such a type. What it returns may have a
// method Validate() error, which says what of a decoded config makes no sense; a
// method Servers() []string, which names the MCP servers it is about; a method
// Planted() []string, which names the canaries it is about, where none is all; and methods
// Files() []string, which names files relative to the eval, and
// Hold(map[string][]byte) error, which takes what is in them.
func NewConfig(graderType string) (any, bool) { return newGrader(graderType) }

// Types lists the grader types there are, in alphabetical order.
func Types() []string { return slices.Sorted(maps.Keys(graders())) }

// TypeSchemas holds the JSON Schemas of config types that cannot be inferred
// from their Go type.
func TypeSchemas() map[reflect.Type]*jsonschema.Schema {
	text := &jsonschema.Schema{Type: "string"}
	return map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[NamePattern](): {Type: "string", MinLength: jsonschema.Ptr(1)},
		reflect.TypeFor[Names](): {
			AnyOf: []*jsonschema.Schema{text, {Type: "array", Items: &jsonschema.Schema{Type: "string"}}},
		},
	}
}

// Names is a list of names that may be written as a single one.
type Names []string

// UnmarshalJSON reads a string or a list of strings.
func (n *Names) UnmarshalJSON(data []byte) error {
	return n.decode(func(v any) error { return json.Unmarshal(data, v) })
}

// UnmarshalYAML reads a string or a list of strings.
func (n *Names) UnmarshalYAML(decode func(any) error) error { return n.decode(decode) }

func (n *Names) decode(decode func(any) error) error {
	var one string
	if decode(&one) == nil {
		*n = Names{one}
		return nil
	}
	var list []string
	if err := decode(&list); err != nil {
		return err
	}
	*n = list
	return nil
}
