package script

import (
	"errors"
	"fmt"
	"strings"
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
