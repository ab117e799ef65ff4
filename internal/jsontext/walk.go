package jsontext

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"
	"strings"
)

// The functions in this file walk JSON. [Members] and [Elements] also walk invalid JSON, up to the
// first byte that they cannot read; the others require JSON that [Valid] has accepted. They exist
// because encoding/json ignores the case of keys, hides duplicates and copies values, and because a
// token decoder validates each value again when it skips it, which takes forty times as long for a
// message with two megabytes of text.

const space = " \t\r\n"

// TrimSpace returns b without leading and trailing JSON white space.
func TrimSpace(b []byte) []byte { return bytes.Trim(b, space) }

func skipSpace(b []byte) []byte {
	for i, c := range b {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return b[i:]
		}
	}
	return nil
}

// Members yields the keys and values of an object in order. It yields nothing for other values. For
// an invalid object it yields the members before the first byte that it cannot read, with each
// value up to its apparent end.
func Members(value []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		rest, ok := enter(value, '{')
		for ok && len(rest) > 0 && rest[0] == '"' {
			n := StringLength(rest)
			key := Word(rest[:n])
			rest = skipSpace(rest[n:])
			if len(rest) == 0 || rest[0] != ':' {
				return
			}
			if rest = skipSpace(rest[1:]); len(rest) == 0 {
				return
			}
			if n = valueLength(rest); n == 0 || !yield(key, rest[:n]) {
				return
			}
			rest = afterComma(rest[n:])
		}
	}
}

// Repeats reports whether one of keys occurs more than once in an object. Nested objects do not
// count.
func Repeats(object []byte, keys ...string) bool {
	var seen []string
	for key := range Members(object) {
		if !slices.Contains(keys, key) {
			continue
		}
		if slices.Contains(seen, key) {
			return true
		}
		seen = append(seen, key)
	}
	return false
}

// Member returns the value of an object's key, or nil. The last of duplicate keys counts,
// as in most parsers.
func Member(object []byte, key string) (found []byte) {
	for k, value := range Members(object) {
		if k == key {
			found = value
		}
	}
	return found
}

// FoldKey maps a key to the key that a lenient parser may read: one that ignores case, or
// that ends strings at a NUL like parsers in C. ToUpper is applied first because of letters
// such as ſ, which equals s only in upper case.
func FoldKey(key string) string {
	key, _, _ = strings.Cut(key, "\x00")
	return strings.ToLower(strings.ToUpper(key))
}

// Elements yields the elements of an array. It yields nothing for other values. It treats an
// invalid array as [Members] treats an invalid object.
func Elements(value []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		rest, ok := enter(value, '[')
		for ok && len(rest) > 0 && rest[0] != ']' {
			n := valueLength(rest)
			if n == 0 || !yield(rest[:n]) {
				return
			}
			rest = afterComma(rest[n:])
		}
	}
}

func enter(value []byte, open byte) ([]byte, bool) {
	rest := skipSpace(value)
	if len(rest) == 0 || rest[0] != open {
		return nil, false
	}
	return skipSpace(rest[1:]), true
}

func afterComma(rest []byte) []byte {
	rest = skipSpace(rest)
	if len(rest) > 0 && rest[0] == ',' {
		rest = skipSpace(rest[1:])
	}
	return rest
}

// valueLength returns the length of the value at the beginning of b.
func valueLength(b []byte) int {
	switch b[0] {
	case '"':
		return StringLength(b)
	case '{', '[':
		length, _ := nested(b)
		return length
	}
	if n := bytes.IndexAny(b, ",]}"+space); n >= 0 {
		return n
	}
	return len(b)
}

// StringLength returns the length of the JSON string at the beginning of b, including its
// quotes.
func StringLength(b []byte) int {
	for i := 1; i < len(b); {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			break
		}
		i += n + 1
		if !endsEscaping(b[:i-1]) {
			return i
		}
	}
	return len(b)
}

// endsEscaping reports whether b ends with a backslash that escapes the next byte.
func endsEscaping(b []byte) bool {
	return (len(b)-len(bytes.TrimRight(b, `\`)))%2 == 1
}

// nested returns the length of the object or array at the beginning of b, and its nesting depth.
func nested(b []byte) (length, deepest int) {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i += StringLength(b[i:]) - 1
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1, deepest
			}
		}
	}
	return len(b), deepest
}

// Word returns the value of a JSON string, truncated with an ellipsis after about [Piece]
// bytes. It is meant for names and methods, which are never that long. It returns "" for
// other values.
func Word(raw []byte) string {
	if len(raw) <= Piece {
		return Text(raw)
	}
	if raw[0] != '"' {
		return ""
	}
	for piece := range Texts(raw) {
		return string(piece) + "…"
	}
	return ""
}

// Text returns the value of a JSON string, or "" for other values.
func Text(raw []byte) string {
	if plain, ok := plainText(raw); ok {
		return plain
	}
	var s string
	if raw = skipSpace(raw); len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// plainText returns the value of a string of printable ASCII without escapes, which is the
// common case.
func plainText(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return "", false
	}
	inside := raw[1 : len(raw)-1]
	for _, c := range inside {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return "", false
		}
	}
	return string(inside), true
}
