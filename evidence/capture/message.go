package capture

import (
	"encoding/json"
	"slices"

	jsonv2 "github.com/go-json-experiment/json/jsontext"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// members returns the members of a JSON object, and false if raw is not an object. Keys are
// case-sensitive, unlike those of struct fields. The last of duplicate keys wins, as with
// most parsers. The values share memory with raw.
func members(raw []byte) (map[string]json.RawMessage, bool) {
	if trimmed := jsontext.TrimSpace(raw); len(trimmed) == 0 || trimmed[0] != '{' {
		return nil, false
	}
	fields := map[string]json.RawMessage{}
	for key, value := range jsontext.Members(raw) {
		fields[key] = slices.Clip(value)
	}
	return fields, true
}

// folded returns a key that lenient servers may read as a known key, and the known key. It returns empty
// strings if there is none. It is unknown what servers do with a message that has such a key.
func folded(fields map[string]json.RawMessage, known ...string) (key, as string) {
	for candidate := range fields {
		if as != "" && candidate > key || slices.Contains(known, candidate) {
			continue // if there are several, return the first in alphabetical order
		}
		folded := jsontext.FoldKey(candidate)
		if i := slices.IndexFunc(known, func(k string) bool { return jsontext.FoldKey(k) == folded }); i >= 0 {
			key, as = candidate, known[i]
		}
	}
	return key, as
}

// duplicateKeys reports whether an object anywhere in valid JSON has a key twice.
func duplicateKeys(raw []byte) bool {
	return !jsonv2.Value(raw).IsValid(jsonv2.AllowInvalidUTF8(true))
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }
