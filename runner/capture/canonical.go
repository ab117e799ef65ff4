package capture

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Equal reports whether a and b are the same JSON value: numbers by value and
// exact to the last digit, strings as they are, objects without regard to the
// order of keys. An absent value equals an absent one only, and what is not JSON
// equals nothing.
func Equal(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	left, ok := canonical(a)
	if !ok {
		return false
	}
	right, ok := canonical(b)
	return ok && left == right
}

// canonical is a form that equal JSON values share and others do not.
func canonical(raw json.RawMessage) (string, bool) {
	if !json.Valid(raw) {
		return "", false
	}
	in := json.NewDecoder(bytes.NewReader(raw))
	in.UseNumber()
	var v any
	if in.Decode(&v) != nil {
		return "", false
	}
	var out strings.Builder
	writeCanonical(&out, v)
	return out.String(), true
}

func writeCanonical(out *strings.Builder, v any) {
	switch v := v.(type) {
	case map[string]any:
		out.WriteByte('{')
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out.WriteString(strconv.Quote(key))
			out.WriteByte(':')
			writeCanonical(out, v[key])
			out.WriteByte(',')
		}
		out.WriteByte('}')
	case []any:
		out.WriteByte('[')
		for _, item := range v {
			writeCanonical(out, item)
			out.WriteByte(',')
		}
		out.WriteByte(']')
	case json.Number:
		out.WriteString(canonicalNumber(string(v)))
	case string:
		out.WriteString(strconv.Quote(v))
	case bool:
		out.WriteString(strconv.FormatBool(v))
	default:
		out.WriteString("null")
	}
}

// canonicalNumber writes a JSON number as digits and a power of ten, so that
// 1, 1.0 and 10e-1 are one. It works on the text: no digit is lost, and no
// exponent, however large, is expanded.
func canonicalNumber(n string) string {
	mantissa, exponent := n, 0
	if i := strings.IndexAny(n, "eE"); i >= 0 {
		e, err := strconv.ParseInt(n[i+1:], 10, 32)
		if err != nil {
			return n
		}
		mantissa, exponent = n[:i], int(e)
	}
	digits, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	digits, exponent = whole+fraction, exponent-len(fraction)
	digits = strings.TrimLeft(digits, "0")
	if digits == "" {
		return "0"
	}
	significant := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(significant)
	if negative {
		significant = "-" + significant
	}
	return significant + "e" + strconv.Itoa(exponent)
}

// idKey identifies a request id: "1" is not 1, but 1.0 is, since a peer may
// answer it so. Only strings and numbers are ids.
func idKey(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 {
		return "", false
	}
	switch c := raw[0]; {
	case c == '"':
		return canonical(raw)
	case c == '-' || c >= '0' && c <= '9':
		return canonicalNumber(string(raw)), true
	}
	return "", false
}
