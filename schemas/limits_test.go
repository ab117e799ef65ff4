package schemas_test

import (
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/waza-isolate/waza/internal/strictyaml"
)

// limiter adds the limits in a type's tags to its schema.
type limiter struct {
	custom map[reflect.Type]*jsonschema.Schema // not modified
}

func (l limiter) apply(s *jsonschema.Schema, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	notNull(s)
	if l.custom[t] != nil {
		return
	}
	switch t.Kind() {
	case reflect.String: // set from any scalar
		if s.Type == "string" {
			s.Type, s.Types = "", []string{"string", "number", "boolean"}
		}
	case reflect.Slice:
		l.apply(s.Items, t.Elem())
	case reflect.Map:
		l.apply(s.AdditionalProperties, t.Elem())
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			property := s.Properties[name]
			if property == nil {
				continue
			}
			l.apply(property, f.Type)
			limit(property, strictyaml.LimitsOf(f))
		}
		if reflect.PointerTo(t).Implements(reflect.TypeFor[strictyaml.Shorthand]()) {
			whole := *s
			*s = jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string", MinLength: jsonschema.Ptr(1)}, &whole}}
		}
	}
}

// notNull removes the null type that the generator adds wherever Go allows nil.
func notNull(s *jsonschema.Schema) {
	if s.Types == nil {
		return
	}
	rest := slices.DeleteFunc(slices.Clone(s.Types), func(t string) bool { return t == "null" })
	if len(rest) == 1 {
		s.Type, s.Types = rest[0], nil
	}
}

func limit(s *jsonschema.Schema, lim strictyaml.Limits) {
	number := s
	if s.Type == "array" {
		number = s.Items
	}
	number.Minimum, number.Maximum, number.ExclusiveMinimum = lim.Min, lim.Max, lim.Over
	if lim.Zero {
		number.Minimum = jsonschema.Ptr(0.0)
	}
	switch {
	case s.Type == "array" && s.Items.Types != nil && len(lim.Enum) > 0:
		s.Items.Enum = words(lim.Enum)
	case s.Types != nil && len(lim.Enum) > 0:
		s.Enum = words(lim.Enum)
	case s.Types != nil && lim.Required:
		s.MinLength = jsonschema.Ptr(1)
	case s.Type == "array" && lim.Required:
		s.MinItems = jsonschema.Ptr(1)
	}
}

func words(list []string) []any {
	all := make([]any, len(list))
	for i, word := range list {
		all[i] = word
	}
	return all
}
