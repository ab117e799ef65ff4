// Package mirror determines which arguments of a tool's calls are repeated in headers, and how;
// 2026-07-28 basic/transports/streamable-http, "Custom Headers from Tool Parameters".
package mirror

import (
	"bytes"
	"encoding/base64"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// prefix is that of headers that repeat arguments.
const prefix = "Mcp-Param-"

// Limits on what is read of a schema.
const (
	maxArguments = 64
	maxDepth     = 32
)

// maxSafeInteger is the largest integer allowed in a mirrored argument.
const maxSafeInteger = 1<<53 - 1

// Argument is an argument that is repeated in a header.
type Argument struct {
	Path   []string // object keys from the arguments down
	Header string   // with its prefix
}

// In returns the annotated arguments in a schema, and whether all annotations are valid; clients do
// not use a tool with an invalid one. Only annotations below "properties" count.
func In(schema []byte) (found []Argument, valid bool) {
	seen := map[string]bool{}
	valid = true
	walk(schema, nil, func(path []string, property, annotation []byte) bool {
		header := jsontext.Word(annotation)
		name := strings.ToLower(header)
		if header == "" || seen[name] || !isToken(name) || !isPrimitive(jsontext.Member(property, "type")) {
			valid = false
		}
		seen[name] = true
		if header != "" {
			found = append(found, Argument{Path: path, Header: prefix + header})
		}
		return len(found) < maxArguments
	})
	return found, valid
}

// walk visits the annotated properties of a schema until visit returns false.
func walk(schema []byte, path []string, visit func(path []string, property, annotation []byte) bool) bool {
	if len(path) == maxDepth {
		return true
	}
	for key, property := range jsontext.Members(jsontext.Member(schema, "properties")) {
		at := append(slices.Clone(path), key)
		if annotation := jsontext.Member(property, "x-mcp-header"); annotation != nil && !visit(at, property, annotation) {
			return false
		}
		if !walk(property, at, visit) {
			return false
		}
	}
	return true
}

// isToken reports whether a name can be that of a header.
func isToken(name string) bool {
	return strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}) < 0
}

// isPrimitive reports whether all types that a schema names fit into a header.
func isPrimitive(kind []byte) bool {
	if len(kind) == 0 || kind[0] != '[' {
		return slices.Contains([]string{"string", "integer", "boolean"}, jsontext.Word(kind))
	}
	some := false
	for one := range jsontext.Elements(kind) {
		if some = isPrimitive(one); !some {
			return false
		}
	}
	return some
}

// Of returns the argument's value in a call's arguments, or nil if it is absent or null.
func (a Argument) Of(arguments []byte) []byte {
	for _, key := range a.Path {
		arguments = jsontext.Member(arguments, key)
	}
	if string(arguments) == "null" {
		return nil
	}
	return arguments
}

// Value returns the header's value for a call's arguments, and false if there is no header.
func (a Argument) Value(arguments []byte) (string, bool) {
	argument := a.Of(arguments)
	switch {
	case len(argument) == 0:
		return "", false
	case argument[0] == '"':
		return Encode(jsontext.Word(argument)), true
	case bytes.Equal(argument, []byte("true")), bytes.Equal(argument, []byte("false")):
		return string(argument), true
	}
	n, ok := safeInteger(string(argument))
	return strconv.FormatInt(n, 10), ok
}

// Matches reports whether a header's decoded value represents an argument. Integers are compared as
// numbers.
func Matches(value string, argument []byte) bool {
	switch argument[0] {
	case '"':
		return value == jsontext.Word(argument)
	case 't', 'f':
		return value == string(argument)
	}
	want, ok := safeInteger(string(argument))
	got, fine := safeInteger(value)
	return ok && fine && got == want
}

// safeInteger parses a number that is an integer in any notation, such as 1e3.
func safeInteger(number string) (int64, bool) {
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > maxSafeInteger {
		return 0, false
	}
	return int64(f), true
}

// Delimiters of a value that is encoded because plain text cannot represent it.
const encodedStart, encodedEnd = "=?base64?", "?="

// Encode returns a header's value for a text.
func Encode(text string) string {
	if isPlain(text) && strings.Trim(text, " \t") == text && !strings.HasPrefix(text, encodedStart) {
		return text
	}
	return encodedStart + base64.StdEncoding.EncodeToString([]byte(text)) + encodedEnd
}

// Decode decodes a header's value, which is base64 if plain text cannot represent it. It returns
// false if the encoding is invalid, or if an unencoded value has characters that must be encoded.
func Decode(value string) (string, bool) {
	inner, ok := strings.CutPrefix(value, encodedStart)
	if ok {
		inner, ok = strings.CutSuffix(inner, encodedEnd)
	}
	if !ok {
		return value, isPlain(value)
	}
	decoded, err := base64.StdEncoding.DecodeString(inner)
	if err != nil {
		return "", false
	}
	return string(decoded), true
}

// isPlain reports whether a value consists of visible ASCII, spaces and tabs.
func isPlain(value string) bool {
	return strings.IndexFunc(value, func(r rune) bool {
		return r != '\t' && (r < ' ' || r > '~')
	}) < 0
}
