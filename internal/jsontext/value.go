package jsontext

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
)

// Parse parses a single JSON value, with numbers as [json.Number]. The error describes
// where raw is invalid.
func Parse(raw []byte) (any, error) {
	if !Valid(raw) {
		var value json.RawMessage
		return nil, cmp.Or(json.Unmarshal(raw, &value), errors.New("not a JSON value"))
	}
	return Decode(raw), nil
}

// Decode decodes a valid value as json.Unmarshal does into an any, with numbers as
// [json.Number].
func Decode(value []byte) (v any) {
	in := json.NewDecoder(bytes.NewReader(value))
	in.UseNumber()
	_ = in.Decode(&v) // it is valid
	return v
}

// Map returns a copy of a value, as returned by [Parse], with each scalar replaced by the result of
// replace.
func Map(value any, replace func(scalar any) any) any {
	switch value := value.(type) {
	case []any:
		items := make([]any, len(value))
		for i, item := range value {
			items[i] = Map(item, replace)
		}
		return items
	case map[string]any:
		fields := make(map[string]any, len(value))
		for key, field := range value {
			fields[key] = Map(field, replace)
		}
		return fields
	}
	return replace(value)
}

// Same reports whether a and b are the same JSON value according to [Equal]. An absent value only
// equals an absent one, and invalid JSON equals nothing.
func Same(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	left, err := Parse(a)
	if err != nil {
		return false
	}
	right, err := Parse(b)
	return err == nil && Equal(left, right)
}

// Equal reports whether a and b, as returned by [Parse], are the same value. Values of
// other types are never equal.
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

// Encode encodes a value returned by [Parse], with keys sorted and numbers as written.
func Encode(v any) string {
	text, _ := Marshal(v) // a parsed value can be encoded
	return string(text)
}

// Canonical returns the canonical form of a JSON value; ok is false if raw is invalid.
func Canonical(raw []byte) (string, bool) {
	v, err := Parse(raw)
	if err != nil {
		return "", false
	}
	return Form(v), true
}

// Form returns the canonical form of a value returned by [Parse], which is the same for
// equal values only.
func Form(v any) string { return string(appendForm(make([]byte, 0, 256), v)) }

func appendForm(out []byte, v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		out = append(out, '{')
		keys := slices.AppendSeq(make([]string, 0, len(v)), maps.Keys(v))
		slices.Sort(keys)
		for _, key := range keys {
			out = append(strconv.AppendQuote(out, key), ':')
			out = append(appendForm(out, v[key]), ',')
		}
		return append(out, '}')
	case []any:
		out = append(out, '[')
		for _, item := range v {
			out = append(appendForm(out, item), ',')
		}
		return append(out, ']')
	case json.Number:
		return AppendNumberForm(out, string(v))
	case string:
		return strconv.AppendQuote(out, v)
	case bool:
		return strconv.AppendBool(out, v)
	}
	return append(out, "null"...)
}

// Digest returns the SHA-256 of the [Canonical] form in hexadecimal; ok is false if raw is
// invalid.
func Digest(raw []byte) (string, bool) {
	form, ok := Canonical(raw)
	if !ok {
		return "", false
	}
	sum := sha256.Sum256([]byte(form))
	return hex.EncodeToString(sum[:]), true
}
