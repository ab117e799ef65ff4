package jsontext

import (
	"bytes"
	stdjson "encoding/json"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	v1 "github.com/go-json-experiment/json/v1"
)

// TypeError is the error of [Unmarshal] for a value of the wrong type. All other values are
// decoded.
type TypeError = v1.UnmarshalTypeError

// Unmarshal is json.Unmarshal, except that keys are matched with their case: MCP has a member
// "text" and none called "Text".
func Unmarshal(data []byte, into any) error {
	return json.Unmarshal(data, into, v1.DefaultOptionsV1(), json.MatchCaseInsensitiveNames(false))
}

// Valid is json.Valid, but faster.
func Valid(data []byte) bool {
	return jsontext.Value(data).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// Marshal is json.Marshal without HTML escaping, so that what was captured stays readable.
func Marshal(v any) ([]byte, error) {
	line, err := encode(v, "")
	return bytes.TrimSuffix(line, []byte("\n")), err
}

// MarshalIndent is [Marshal] for people: indented by two spaces, with a line break at the end.
func MarshalIndent(v any) ([]byte, error) { return encode(v, "  ") }

func encode(v any, indent string) ([]byte, error) {
	var out bytes.Buffer
	encoder := stdjson.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
