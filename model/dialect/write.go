package dialect

import (
	"encoding/json"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// Answer is a model's answer to be written.
type Answer struct {
	Model string
	Text  string
	Uses  []AnswerUse
	Usage Usage
	// ID returns an id with a prefix: the id of the answer for n = 0, else that of the nth tool use.
	ID func(prefix string, n int) string
	// UsageInStream makes a stream of chat completions end with the usage.
	UsageInStream bool
}

// AnswerUse is a tool use in a response.
type AnswerUse struct {
	Tool      ToolName
	Arguments json.RawMessage // an object
}

// hasText reports whether an answer has text, which it also does if it has nothing else.
func (a Answer) hasText() bool { return a.Text != "" || len(a.Uses) == 0 }

// Event is one event of a stream.
type Event struct {
	Type string // empty if the API has none
	Data any    // encoded by [Event.Encode]
}

// Encode returns the data of the event.
func (e Event) Encode() []byte {
	if word, ok := e.Data.(rawText); ok {
		return []byte(word)
	}
	return mustEncode(e.Data)
}

type rawText string

// doneWord ends a stream of chat completions.
const doneWord = rawText("[DONE]")

// Failure is a provider's error to be written.
type Failure struct {
	Status       int // of HTTP
	Message      string
	Type         string   // name for OpenAI and Anthropic; empty for the default of the status
	GoogleStatus string   // name for Google; empty for the default of the status
	RetryAfter   *float64 // seconds; in the body only for Google
	Quota        bool     // a quota is used up; apart from Type only for Google
}

// Whole returns an answer that is not streamed, as JSON.
func (n Name) Whole(a Answer) []byte { return mustEncode(apiOf(n).whole(a)) }

// Events returns an answer as the events of a stream.
func (n Name) Events(a Answer) []Event { return apiOf(n).events(a) }

// Failure returns the body of an error, as JSON.
func (n Name) Failure(f Failure) []byte { return mustEncode(apiOf(n).failure(f)) }

// Model returns the description of a model, as JSON.
func (n Name) Model(model string) []byte { return mustEncode(apiOf(n).model(model)) }

// Models returns a non-empty list of models as JSON.
func (n Name) Models(models []string) []byte {
	all := make([]any, len(models))
	for i, model := range models {
		all[i] = apiOf(n).model(model)
	}
	return mustEncode(apiOf(n).models(all, models))
}

// TokenCount returns the number of tokens of a request, as JSON.
func (n Name) TokenCount(tokens int64) []byte {
	if n == Generate {
		return mustEncode(object{"totalTokens": tokens})
	}
	return mustEncode(object{"input_tokens": tokens})
}

const (
	// created is the reported creation time of answers and models, in seconds of Unix time. It is
	// constant, so that equal requests get equal answers.
	created = 1_700_000_000
	// tokenLimit is the reported limit of models for input and output tokens.
	tokenLimit = 1_000_000
)

// object is a JSON object.
type object map[string]any

// words splits text into words with their leading spaces.
func words(text string) []string {
	var all []string
	for text != "" {
		start := len(text) - len(strings.TrimLeft(text, " \n"))
		end := strings.IndexAny(text[start:], " \n")
		if end < 0 {
			return append(all, text)
		}
		all = append(all, text[:start+end])
		text = text[start+end:]
	}
	return all
}

// pieces splits arguments into pieces of a few characters.
func pieces(arguments json.RawMessage) []string {
	const size = 12
	var all []string
	runes := []rune(string(arguments))
	for start := 0; start < len(runes); start += size {
		all = append(all, string(runes[start:min(start+size, len(runes))]))
	}
	return all
}

// mustEncode encodes v, which must consist of objects, strings, numbers and JSON.
func mustEncode(v any) []byte {
	body, err := jsontext.Marshal(v)
	if err != nil {
		panic(err)
	}
	return body
}
