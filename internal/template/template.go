// Package template substitutes values for {{ expressions }} in texts, and in JSON values
// whose strings are such texts. Values are inserted without escaping.
//
// A plain path, such as stock.items[0].id, keeps the digits of numbers, and a missing part is an
// error. It can lead into a text that is JSON. Other expressions are programs of package expr,
// without functions whose result may differ between runs.
package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

const (
	opening = "{{"
	closing = "}}"
)

var errOpen = errors.New(`"{{" without "}}"; a literal one is written {{ "{{" }}`)

// maxFilled is the maximum size of the text that a filled-in value may have, in bytes. Values may
// contain one another, and so double in size repeatedly.
const maxFilled = 8 << 20

var errLong = fmt.Errorf("more than %d MiB of text", maxFilled>>20)

// Text is a sequence of plain text and expressions.
type Text []part

// part is an expression or plain text.
type part struct {
	plain string
	value *expression
}

// Parse splits text at its expressions, which may use names, and compiles each.
func Parse(text string, names []string) (Text, error) {
	var all Text
	for {
		plain, rest, found := strings.Cut(text, opening)
		if plain != "" {
			all = append(all, part{plain: plain})
		}
		if !found {
			return all, nil
		}
		end := expressionEnd(rest)
		if end < 0 {
			return nil, errOpen
		}
		value, err := compile(strings.TrimSpace(rest[:end]), names)
		if err != nil {
			return nil, err
		}
		all = append(all, part{value: value})
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
func (t Text) String(v *Variables) (string, error) {
	var out strings.Builder
	for _, p := range t {
		if p.value == nil {
			out.WriteString(p.plain)
			continue
		}
		value, err := p.value.eval(v)
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
		if defence.BoundedTemplates && out.Len()+len(text) > maxFilled {
			return "", errLong
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

// Value returns the value, of any type, of a text that consists of a single expression, and
// otherwise the text as by String.
func (t Text) Value(v *Variables) (any, error) {
	if len(t) == 1 && t[0].value != nil {
		return t[0].value.eval(v)
	}
	return t.String(v)
}

// Read returns a JSON value with each string replaced by the text that read returns for it
// and its path.
func Read(at strictyaml.Path, value any, read func(strictyaml.Path, string) Text) any {
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
func Fill(value any, v *Variables) (any, error) {
	left := maxFilled
	return fill(value, v, &left)
}

// fill subtracts the size of its result from left.
func fill(value any, v *Variables, left *int) (made any, err error) {
	switch value := value.(type) {
	case Text:
		if made, err = value.Value(v); err != nil {
			return nil, err
		}
		return fill(made, v, left)
	case []any:
		items := make([]any, len(value))
		for i, item := range value {
			if items[i], err = fill(item, v, left); err != nil {
				return nil, err
			}
		}
		return items, nil
	case map[string]any:
		fields := make(map[string]any, len(value))
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if fields[key], err = fill(value[key], v, left); err != nil {
				return nil, err
			}
			*left -= len(key)
		}
		return fields, nil
	case string:
		*left -= len(value)
	case json.Number:
		*left -= len(value)
	}
	if defence.BoundedTemplates && *left < 0 {
		return nil, errLong
	}
	return value, nil
}
