package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/template"
)

// compiled is a text whose expressions are compiled. A value of a script is JSON with one for each
// string.
type compiled = template.Text[*variables]

// parseText parses a text whose expressions may use names.
func parseText(s string, names []string) (compiled, error) {
	made, err := template.Parse(s, func(source string) (template.Expression[*variables], error) {
		if source == "" {
			return nil, errors.New("an empty expression")
		}
		e, err := compile(source, names)
		return e.eval, err
	})
	if errors.Is(err, template.ErrOpen) {
		err = fmt.Errorf(`%w; a literal one is written {{ "{{" }}`, err)
	}
	return made, err
}

// variables are the values of expressions' names. They are JSON values: nil, bool, string,
// json.Number, []any, map[string]any.
type variables struct {
	names []string       // in the order of bind
	exact map[string]any // with numbers as written
	// computed has the same values for arithmetic: numbers are int if they fit into 64 bits,
	// else float64.
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

// mark and release delimit the names that are bound in an iteration of a loop.
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

// number returns n as a JSON value.
func number(n int) json.Number { return json.Number(strconv.Itoa(n)) }

// withJSON adds "json" to fields if text is a JSON value.
func withJSON(fields map[string]any, text string) map[string]any {
	if value, err := jsontext.Parse([]byte(strings.TrimSpace(text))); err == nil {
		fields["json"] = value
	}
	return fields
}
