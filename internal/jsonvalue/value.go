// Package jsonvalue compares JSON values as this project does everywhere: numbers
// by value and exact to the last digit (1 = 1.0), strings as they are, arrays in
// order, objects without regard to the order of keys, and no type for another
// (1 ≠ "1", 1 ≠ true).
package jsonvalue

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Parse reads the one JSON value that raw is, its numbers as [json.Number].
func Parse(raw []byte) (any, error) {
	if !json.Valid(raw) {
		return nil, errors.New("not a JSON value")
	}
	in := json.NewDecoder(bytes.NewReader(raw))
	in.UseNumber()
	var v any
	err := in.Decode(&v)
	return v, err
}

// Equal reports whether a and b are the same value. Both are as [Parse] gives them;
// what else they may be equals nothing.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key, value := range a {
			if other, ok := b[key]; !ok || !Equal(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, Equal)
	case json.Number:
		b, ok := b.(json.Number)
		return ok && sameNumber(string(a), string(b))
	case string:
		b, ok := b.(string)
		return ok && a == b
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	}
	return a == nil && b == nil
}

// Canonical is the form of the value that raw is; false where it is none.
func Canonical(raw []byte) (string, bool) {
	v, err := Parse(raw)
	if err != nil {
		return "", false
	}
	return Form(v), true
}

// Form is what equal values share and others do not. v is as [Parse] gives it.
func Form(v any) string {
	var out strings.Builder
	write(&out, v)
	return out.String()
}

func write(out *strings.Builder, v any) {
	switch v := v.(type) {
	case map[string]any:
		out.WriteByte('{')
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out.WriteString(strconv.Quote(key))
			out.WriteByte(':')
			write(out, v[key])
			out.WriteByte(',')
		}
		out.WriteByte('}')
	case []any:
		out.WriteByte('[')
		for _, item := range v {
			write(out, item)
			out.WriteByte(',')
		}
		out.WriteByte(']')
	case json.Number:
		out.WriteString(NumberForm(string(v)))
	case string:
		out.WriteString(strconv.Quote(v))
	case bool:
		out.WriteString(strconv.FormatBool(v))
	default:
		out.WriteString("null")
	}
}
