package capture

import (
	"encoding/json"

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
