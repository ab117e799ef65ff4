package evidence

import (
	"encoding/base64"
	"unicode/utf8"
)

// frameCost is more than a frame and its call take beside the message, and modelCost more
// than a model's call takes beside request and response.
const (
	frameCost = 1 << 10
	modelCost = 1 << 10
)

// CostOf returns how much room a message takes at most: in its frame, and then in its call,
// in the results and in the report, which are made of that.
func CostOf(message []byte) int64 { return 2*(quoted(message)+int64(len(message))) + frameCost }

// ModelCost returns how much room a call of a model takes at most.
func ModelCost(c ModelCall) int64 { return quoted(c.Request) + quoted(c.Response) + modelCost }

// quoted is how long text is at most as a frame has it.
func quoted(text []byte) int64 {
	if !utf8.Valid(text) {
		return int64(base64.StdEncoding.EncodedLen(len(text)))
	}
	n := int64(len(text))
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			n++
		case c < ' ':
			n += 5 // as \u0000
		}
	}
	return n
}
