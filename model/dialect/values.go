package dialect

import "github.com/waza-isolate/waza/internal/jsontext"

// maxValues is how many values a JSON text has at most that is decoded: one of two bytes
// takes a hundred in memory.
const maxValues = 1 << 19

// HasTooMany says whether a JSON text has so many values that it is not decoded.
func HasTooMany(text []byte) bool { return jsontext.MoreThan(maxValues, text) }
