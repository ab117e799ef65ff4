package jsontext

import "encoding/json"

// Decode decodes a valid value as json.Unmarshal does into an any, in a single pass and
// with numbers as [json.Number].
func Decode(value []byte) any {
	v, _ := decode(skipSpace(value))
	return v
}

// decode decodes the value at the beginning of b, and returns the rest of b.
func decode(b []byte) (v any, rest []byte) {
	switch b[0] {
	case '{':
		return decodeObject(skipSpace(b[1:]))
	case '[':
		return decodeArray(skipSpace(b[1:]))
	}
	n := valueLength(b)
	word, rest := b[:n], b[n:]
	switch b[0] {
	case '"':
		return Text(word), rest
	case 't':
		return true, rest
	case 'f':
		return false, rest
	case 'n':
		return nil, rest
	}
	return json.Number(word), rest
}

func decodeObject(inside []byte) (map[string]any, []byte) {
	members := map[string]any{}
	for inside[0] != '}' {
		n := StringLength(inside)
		key := Text(inside[:n])
		colon := skipSpace(inside[n:])
		var rest []byte
		members[key], rest = decode(skipSpace(colon[1:]))
		inside = afterComma(rest)
	}
	return members, inside[1:]
}

func decodeArray(inside []byte) ([]any, []byte) {
	elements := []any{}
	for inside[0] != ']' {
		element, rest := decode(inside)
		elements, inside = append(elements, element), afterComma(rest)
	}
	return elements, inside[1:]
}
