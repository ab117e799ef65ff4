package capture

import (
	"encoding/json"
	"maps"
	"slices"

	jsonv2 "github.com/go-json-experiment/json/jsontext"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/jsonvalue"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
)

// members reads an object of valid JSON; false where raw is none. Unlike a struct's
// fields its keys keep their case. Of a key that comes twice the last value counts, as
// with most parsers. The values are parts of raw.
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

// folded returns the key that careless servers take for a known one: what such a message
// makes them do is not known. It is empty where there is none.
func folded(fields map[string]json.RawMessage, known ...string) (key, as string) {
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		for _, k := range known {
			if key != k && jsontext.FoldKey(key) == jsontext.FoldKey(k) {
				return key, k
			}
		}
	}
	return "", ""
}

// repeats says whether one of some keys comes twice in an object, not counting what
// is in its values.
func repeats(object []byte, keys ...string) bool {
	var seen []string
	for key := range jsontext.Members(object) {
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

// duplicateKeys reports whether an object anywhere in valid JSON has a key twice.
func duplicateKeys(raw []byte) bool {
	return !jsonv2.Value(raw).IsValid(jsonv2.AllowInvalidUTF8(true))
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

// errorOf is the error of a response; nil where it has none, or null.
func errorOf(m jsonrpc.Message) json.RawMessage {
	if isNull(m.Error) {
		return nil
	}
	return m.Error
}

// Equal reports whether a and b are the same JSON value, as [jsonvalue] compares
// them. An absent value equals an absent one only, and what is not JSON equals
// nothing.
func Equal(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	left, err := jsonvalue.Parse(a)
	if err != nil {
		return false
	}
	right, err := jsonvalue.Parse(b)
	return err == nil && jsonvalue.Equal(left, right)
}
