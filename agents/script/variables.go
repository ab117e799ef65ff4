package script

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsonvalue"
)

// variables is what expressions see. Its values are JSON values: nil, bool,
// string, json.Number, []any, map[string]any.
type variables struct {
	names []string       // in the order they were bound
	exact map[string]any // numbers as they were written
	// computed holds the same values for arithmetic: numbers are int where they
	// fit 64 bits, else float64.
	computed map[string]any
}

func newVariables() *variables {
	return &variables{exact: map[string]any{}, computed: map[string]any{}}
}

func (v *variables) bind(name string, value any) {
	v.names = append(v.names, name)
	v.exact[name] = value
	v.computed[name] = computable(value)
}

// mark and release bracket what is bound for one iteration of a loop.
func (v *variables) mark() int { return len(v.names) }

func (v *variables) release(mark int) {
	for _, name := range v.names[mark:] {
		delete(v.exact, name)
		delete(v.computed, name)
	}
	v.names = v.names[:mark]
}

func computable(value any) any {
	switch value := value.(type) {
	case json.Number:
		if n, err := value.Int64(); err == nil {
			return int(n)
		}
		f, _ := value.Float64()
		return f
	case []any:
		items := make([]any, len(value))
		for i, item := range value {
			items[i] = computable(item)
		}
		return items
	case map[string]any:
		fields := make(map[string]any, len(value))
		for key, field := range value {
			fields[key] = computable(field)
		}
		return fields
	default:
		return value
	}
}

// number is n as a JSON value.
func number(n int) json.Number { return json.Number(strconv.Itoa(n)) }

// asText is a value inside a longer text: a string as it is, anything else as
// JSON.
func asText(value any) (string, error) {
	if s, ok := value.(string); ok {
		return s, nil
	}
	raw, err := evidence.Marshal(value)
	return string(raw), err
}

// withJSON adds "json" to fields where text is a JSON value.
func withJSON(fields map[string]any, text string) map[string]any {
	if value, err := jsonvalue.Parse([]byte(strings.TrimSpace(text))); err == nil {
		fields["json"] = value
	}
	return fields
}
