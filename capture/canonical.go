package capture

import (
	"encoding/json"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/jsonvalue"
)

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

// idKey identifies a request id: "1" is not 1, but 1.0 is, since a peer may
// answer it so. Only strings and numbers are ids.
func idKey(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 {
		return "", false
	}
	switch c := raw[0]; {
	case c == '"' && !defence.TypedIDs:
		return jsonvalue.NumberForm(text(raw)), true
	case c == '"':
		return jsonvalue.Canonical(raw)
	case c == '-' || c >= '0' && c <= '9':
		return jsonvalue.NumberForm(string(raw)), true
	}
	return "", false
}
