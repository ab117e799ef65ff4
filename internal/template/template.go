// Package template substitutes values for {{ expressions }} in texts, and in JSON values
// whose strings are such texts.
//
// It defines no expression language: the caller compiles expressions. Values are inserted
// without escaping.
package template

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

const (
	opening = "{{"
	closing = "}}"
)

// ErrOpen is returned for an expression without an end.
var ErrOpen = errors.New(`"{{" without "}}"`)

// Expression evaluates an expression in an environment, and returns a JSON value.
type Expression[E any] func(E) (any, error)

// Text is a sequence of plain text and expressions.
type Text[E any] []part[E]

// part is an expression or plain text.
type part[E any] struct {
	plain string
	value Expression[E]
}

// Parse splits text at its expressions and compiles each, without braces and surrounding
// space. It returns [ErrOpen] or an error of compile.
func Parse[E any](text string, compile func(string) (Expression[E], error)) (Text[E], error) {
	var all Text[E]
	for {
		plain, rest, found := strings.Cut(text, opening)
		if plain != "" {
			all = append(all, part[E]{plain: plain})
		}
		if !found {
			return all, nil
		}
		end := expressionEnd(rest)
		if end < 0 {
			return nil, ErrOpen
		}
		value, err := compile(strings.TrimSpace(rest[:end]))
		if err != nil {
			return nil, err
		}
		all = append(all, part[E]{value: value})
		text = rest[end+len(closing):]
	}
}

// expressionEnd returns the index of the first closing braces in s outside of string
// literals, or -1.
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

// String returns the text with values substituted: strings verbatim, other values as JSON.
func (t Text[E]) String(env E) (string, error) {
	var out strings.Builder
	for _, p := range t {
		if p.value == nil {
			out.WriteString(p.plain)
			continue
		}
		value, err := p.value(env)
		if err != nil {
			return "", err
		}
		text, is := value.(string)
		if !is {
			raw, err := jsontext.Marshal(value)
			if err != nil {
				return "", err
			}
			text = string(raw)
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

// Value returns the value, of any type, of a text that consists of a single expression, and
// otherwise the text as by String.
func (t Text[E]) Value(env E) (any, error) {
	if len(t) == 1 && t[0].value != nil {
		return t[0].value(env)
	}
	return t.String(env)
}

// Read returns a JSON value with each string replaced by the text that read returns for it
// and its path.
func Read[E any](at strictyaml.Path, value any, read func(strictyaml.Path, string) Text[E]) any {
	switch value := value.(type) {
	case string:
		return read(at, value)
	case []any:
		items := make([]any, len(value))
		for i, item := range value {
			items[i] = Read(at.With(i), item, read)
		}
		return items
	case map[string]any:
		fields := make(map[string]any, len(value))
		for _, key := range slices.Sorted(maps.Keys(value)) {
			fields[key] = Read(at.With(key), value[key], read)
		}
		return fields
	}
	return value
}

// Fill returns a value returned by Read with each text replaced by its value.
func Fill[E any](value any, env E) (any, error) {
	switch value := value.(type) {
	case Text[E]:
		return value.Value(env)
	case []any:
		items := make([]any, len(value))
		for i, item := range value {
			var err error
			if items[i], err = Fill(item, env); err != nil {
				return nil, err
			}
		}
		return items, nil
	case map[string]any:
		fields := make(map[string]any, len(value))
		for _, key := range slices.Sorted(maps.Keys(value)) {
			var err error
			if fields[key], err = Fill(value[key], env); err != nil {
				return nil, err
			}
		}
		return fields, nil
	}
	return value, nil
}
