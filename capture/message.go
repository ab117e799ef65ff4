package capture

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// message is one JSON-RPC message.
type message struct {
	raw    json.RawMessage
	id     json.RawMessage // nil where absent, null or of no type an id may have
	key    string          // identifies id by type and value; empty without one
	method string          // empty for an answer
	params json.RawMessage
	result json.RawMessage // nil where absent
	err    json.RawMessage // nil where absent or null
}

var (
	errNotMessage = errors.New("neither a request, a notification nor an answer")
	errEmptyBatch = errors.New("an empty batch")
	errLongBatch  = fmt.Errorf("a batch of more than %d messages", maxBatch)
)

// maxBatch is more than the messages of any batch that the proxy passes on.
const maxBatch = 4096

// split takes a batch apart (2025-03-26); any other message is returned alone.
func split(raw []byte) ([]json.RawMessage, error) {
	trimmed := jsontext.TrimSpace(raw)
	if len(trimmed) == 0 || trimmed[0] != '[' {
		return []json.RawMessage{raw}, nil
	}
	if !json.Valid(raw) {
		var batch []json.RawMessage
		return nil, json.Unmarshal(raw, &batch)
	}
	var batch []json.RawMessage
	for message := range jsontext.Elements(trimmed) {
		if len(batch) == maxBatch {
			return nil, errLongBatch
		}
		batch = append(batch, message)
	}
	if len(batch) == 0 {
		return nil, errEmptyBatch
	}
	return batch, nil
}

func parse(raw json.RawMessage) (message, error) {
	var fields map[string]json.RawMessage
	if !json.Valid(raw) {
		return message{}, json.Unmarshal(raw, &fields)
	}
	fields, ok := members(raw)
	if !ok {
		return message{}, cmp.Or(json.Unmarshal(raw, &fields), errNotMessage)
	}
	if key, ok := folded(fields, "id", "method", "params", "result", "error"); ok {
		return message{}, key
	}
	m := message{raw: raw, params: fields["params"], result: fields["result"], err: fields["error"]}
	if key, ok := idKey(fields["id"]); ok {
		m.id, m.key = fields["id"], key
	}
	if isNull(m.err) {
		m.err = nil
	}
	if method, ok := fields["method"]; ok {
		if m.method = text(method); m.method == "" {
			return message{}, fmt.Errorf("method: %w", errNotMessage)
		}
		return m, nil
	}
	if m.result == nil && m.err == nil {
		return message{}, errNotMessage
	}
	return m, nil
}

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

// foldedKey is a key that [jsontext.FoldKey] takes for another.
type foldedKey struct{ got, known string }

func (k foldedKey) Error() string {
	return fmt.Sprintf("key %q, which some read as %q", k.got, k.known)
}

// folded finds a key that careless servers take for a known one: what such a message
// makes them do is not known.
func folded(fields map[string]json.RawMessage, known ...string) (foldedKey, bool) {
	var found []foldedKey
	for key := range fields {
		for _, k := range known {
			if key != k && jsontext.FoldKey(key) == jsontext.FoldKey(k) {
				found = append(found, foldedKey{key, k})
			}
		}
	}
	if len(found) == 0 {
		return foldedKey{}, false
	}
	return slices.MinFunc(found, func(a, b foldedKey) int { return strings.Compare(a.got, b.got) }), true
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
	var open []map[string]bool // keys so far; nil in an array
	atKey := false
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '{':
			open, atKey = append(open, map[string]bool{}), true
		case '[':
			open, atKey = append(open, nil), false
		case '}', ']':
			open, atKey = open[:len(open)-1], false
		case ',':
			atKey = open[len(open)-1] != nil
		case '"':
			end := stringEnd(raw, i)
			if atKey {
				key, keys := text(raw[i:end]), open[len(open)-1]
				if keys[key] {
					return true
				}
				keys[key], atKey = true, false
			}
			i = end - 1
		}
	}
	return false
}

// stringEnd is behind the string of valid JSON that begins at from.
func stringEnd(raw []byte, from int) int {
	for i := from + 1; ; i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

// text is a JSON string's value, or empty for anything else.
func text(raw json.RawMessage) string { return jsontext.Text(raw) }
