package jsontext

import (
	"bytes"
	stdjson "encoding/json"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	v1 "github.com/go-json-experiment/json/v1"
)

// TypeError is the error of [Unmarshal] where a value is of another type than it should be.
// All else is read.
type TypeError = v1.UnmarshalTypeError

// Unmarshal is json.Unmarshal, except that the case of a key counts: what crossed the wire
// means what it says, and of {"text": "a", "Text": "b"} one is a text.
func Unmarshal(data []byte, into any) error {
	return json.Unmarshal(data, into, v1.DefaultOptionsV1(), json.MatchCaseInsensitiveNames(false))
}

// Valid is json.Valid, in less time.
func Valid(data []byte) bool {
	return jsontext.Value(data).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// Marshal is json.Marshal without HTML escaping, so that what was captured stays readable.
func Marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := stdjson.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
