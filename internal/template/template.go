// Package template puts values into texts at {{ expressions }}, and into JSON values whose
// strings are such texts.
//
// It knows no language: whoever reads a template compiles its expressions. It puts values in
// as they are, without escaping.
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

// ErrOpen says that an expression has no end.
var ErrOpen = errors.New(`"{{" without "}}"`)

// Expression returns the JSON value of an expression, with what E holds.
type Expression[E any] func(E) (any, error)

// Text is what is written as it is, and expressions.
type Text[E any] []part[E]

// part is an expression, or else plain text.
type part[E any] struct {
	plain string
	value Expression[E]
}

// Parse splits text at its expressions and compiles each, without the braces and the space
// around it. It fails with [ErrOpen], or with what compile fails with.
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

// expressionEnd returns where the first closing in s is that does not stand in a
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

// String returns the text with the values put in: strings as they are, anything else as JSON.
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

// Value returns the value of a text that is one expression and nothing else, of any type; else
// its string.
func (t Text[E]) Value(env E) (any, error) {
	if len(t) == 1 && t[0].value != nil {
		return t[0].value(env)
	}
	return t.String(env)
}

// Read returns the JSON value at a path with a text in place of each string, which read makes
// of it and its path.
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

// Fill returns a value that Read made with the value of each text in its place.
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
