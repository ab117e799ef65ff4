package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsonvalue"
)

const (
	opening = "{{"
	closing = "}}"
)

// value is a JSON value of a script whose strings may hold expressions.
type value interface {
	eval(*variables) (any, error)
}

type (
	literal struct{ value any } // without any expression
	list    []value
	object  map[string]value
	// text is a string: what is written as it is, and expressions.
	text []part
)

// part is an expression where expr is set, else plain text.
type part struct {
	plain string
	expr  *expression
}

func (l literal) eval(*variables) (any, error) { return l.value, nil }

func (l list) eval(v *variables) (any, error) {
	items := make([]any, len(l))
	for i, item := range l {
		var err error
		if items[i], err = item.eval(v); err != nil {
			return nil, err
		}
	}
	return items, nil
}

func (o object) eval(v *variables) (any, error) {
	fields := make(map[string]any, len(o))
	for key, field := range o {
		var err error
		if fields[key], err = field.eval(v); err != nil {
			return nil, err
		}
	}
	return fields, nil
}

// eval returns the value of a text that is one expression, else a string.
func (t text) eval(v *variables) (any, error) {
	if len(t) == 1 && t[0].expr != nil {
		return t[0].expr.eval(v)
	}
	return t.string(v)
}

// string returns the text with its expressions' values put in.
func (t text) string(v *variables) (string, error) {
	var out strings.Builder
	for _, p := range t {
		if p.expr == nil {
			out.WriteString(p.plain)
			continue
		}
		value, err := p.expr.eval(v)
		if err != nil {
			return "", err
		}
		s, err := asText(value)
		if err != nil {
			return "", err
		}
		out.WriteString(s)
	}
	return out.String(), nil
}

// parseText splits s at its expressions, which see names.
func parseText(s string, names []string) (text, error) {
	var parts text
	for {
		plain, rest, found := strings.Cut(s, opening)
		if plain != "" {
			parts = append(parts, part{plain: plain})
		}
		if !found {
			return parts, nil
		}
		end := expressionEnd(rest)
		if end < 0 {
			return nil, fmt.Errorf(`%q without %q; a literal one is written {{ "{{" }}`, opening, closing)
		}
		if strings.TrimSpace(rest[:end]) == "" {
			return nil, errors.New("an empty expression")
		}
		e, err := compile(rest[:end], names)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{expr: &e})
		s = rest[end+len(closing):]
	}
}

// expressionEnd is where the first closing in s is that does not stand in a
// string of the expression, or -1.
func expressionEnd(s string) int {
	var quote byte
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == '\\' && quote != '`' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'' || c == '`':
			quote = c
		case strings.HasPrefix(s[i:], closing):
			return i
		}
	}
	return -1
}

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
