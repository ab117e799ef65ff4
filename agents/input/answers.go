package input

import "encoding/json"

// Kinds of requests that a server makes of its client, named as in the client's capabilities.
const (
	KindElicitation = "elicitation"
	KindSampling    = "sampling"
	KindRoots       = "roots"
)

// Kinds lists the kinds of requests that can be answered.
func Kinds() []string { return []string{KindElicitation, KindSampling, KindRoots} }

// KindOf returns the kind of a request of a server, or "" for any other method.
func KindOf(method string) string {
	switch method {
	case "elicitation/create":
		return KindElicitation
	case "sampling/createMessage":
		return KindSampling
	case "roots/list":
		return KindRoots
	}
	return ""
}

// Answers says which requests of servers have an answer. An agent gets the answer from the runner,
// which checks the request and records both.
type Answers struct {
	URL   string              `json:"url"`   // URL to which a [Question] is posted
	Kinds map[string][]string `json:"kinds"` // kinds of requests that have an answer, by server
}

// AnswersPath is the path of Answers.URL, relative to the gateway's URL.
const AnswersPath = "/.answer"

// Question is a request of a server. An agent posts it to get the [Reply].
type Question struct {
	Server string          `json:"server"`
	Kind   string          `json:"kind"`
	Params json.RawMessage `json:"params,omitempty"`
}

// Reply is the answer to a request of a server: a result, or an error if that is nil.
type Reply struct {
	Result  json.RawMessage `json:"result,omitempty"`
	Code    int             `json:"code,omitempty"`
	Message string          `json:"message,omitempty"`
	Unmet   string          `json:"unmet,omitempty"` // how the request violates its schema; empty if it does not
}
