package jsontext

import (
	"bytes"
	stdjson "encoding/json"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	v1 "github.com/go-json-experiment/json/v1"
)

// TypeError is returned by [Unmarshal] if a value has the wrong type. All other values are
// decoded nevertheless.
type TypeError = v1.UnmarshalTypeError

// Unmarshal is like json.Unmarshal with case-sensitive keys: MCP has a member "text" and
// none called "Text".
func Unmarshal(data []byte, into any) error {
	return json.Unmarshal(data, into, v1.DefaultOptionsV1(), json.MatchCaseInsensitiveNames(false))
}

// Valid is like json.Valid, but faster.
func Valid(data []byte) bool {
	return jsontext.Value(data).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// Marshal is like json.Marshal without HTML escaping, so that captured text stays readable. Its
// output is UTF-8, even if a [json.RawMessage] in v is not; see [UTF8].
func Marshal(v any) ([]byte, error) {
	line, err := encode(v, "")
	return bytes.TrimSuffix(line, []byte("\n")), err
}

// MarshalIndent is like [Marshal], indented by two spaces and with a line break at the end.
func MarshalIndent(v any) ([]byte, error) { return encode(v, "  ") }

func encode(v any, indent string) ([]byte, error) {
	var out bytes.Buffer
	encoder := stdjson.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return UTF8(out.Bytes()), nil
}

// UTF8 returns b with each invalid byte replaced by U+FFFD, which is how decoders read it. If b is
// valid UTF-8, it returns b itself.
func UTF8(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	out := make([]byte, 0, len(b)+len(b)/8)
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		out = utf8.AppendRune(out, r)
		b = b[size:]
	}
	return out
}
