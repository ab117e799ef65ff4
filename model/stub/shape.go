package stub

import (
	"github.com/waza-isolate/waza/model/dialect"
)

// object is a JSON object.
type object map[string]any

// shape writes answers and errors as one dialect has them.
type shape interface {
	// whole is an answer that is not streamed.
	whole(a answer) any
	// events are the same answer in a stream.
	events(a answer, r *request) []event
	// failure is the body of an error.
	failure(status int, message string, retryAfter *float64) any
}

// event is one event of a stream.
type event struct {
	name string // of the event's type; empty where the dialect names none
	data any    // encoded as JSON, but for end
}

// end is the word that ends a stream of chat completions.
const end = rawText("[DONE]")

type rawText string

func shapeOf(name dialect.Name) shape {
	switch name {
	case dialect.Responses:
		return responses{}
	case dialect.Messages:
		return messages{}
	case dialect.Generate:
		return generate{}
	default:
		return chat{}
	}
}
