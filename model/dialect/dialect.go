// Package dialect reads and writes requests, responses and errors of four model APIs, with
// and without streaming: OpenAI's chat completions and responses, Anthropic's messages, and
// Google's generateContent. Each API is in a separate file.
//
// It does no I/O. Input may be malformed, and unknown parts are ignored.
package dialect

import (
	"encoding/json"
	"math"
	"strings"
)

// Name names one of the APIs.
type Name string

const (
	Chat      Name = "chat_completions" // POST …/chat/completions
	Responses Name = "responses"        // POST …/responses
	Messages  Name = "messages"         // POST …/messages
	Generate  Name = "generate_content" // POST …/models/MODEL:generateContent, :streamGenerateContent
)

// api is how one API reads and writes.
type api struct {
	request func(path string, body []byte) (Request, error)
	delta   func(event []byte) (delta, error) // of one event of a stream, or of a whole answer
	whole   func(Answer) any
	events  func(Answer) []Event
	failure func(Failure) any
	model   func(name string) object
	models  func(all []any, names []string) any
}

// apiOf returns the API with a name. For an unknown name it returns chat completions with functions
// that read nothing.
func apiOf(name Name) api {
	switch name {
	case Chat:
		return api{chatRequest, chatDelta, chatWhole, chatEvents, openAIFailure, openAIModel, openAIModels}
	case Responses:
		return api{responsesRequest, responsesDelta, writeResponses, responsesEvents, openAIFailure, openAIModel, openAIModels}
	case Messages:
		return api{messagesRequest, messagesDelta, writeMessages, messagesEvents, messagesFailure, messagesModel, messagesModels}
	case Generate:
		return api{generateRequest, generateDelta, generateWhole, generateEvents, generateFailure, generateModel, generateModels}
	}
	return api{nil, nil, chatWhole, chatEvents, openAIFailure, openAIModel, openAIModels}
}

// Request is an agent's request to a model, with the conversation so far.
type Request struct {
	Model  string
	Stream bool
	System string
	Tools  []Tool
	Items  []Item

	Format        json.RawMessage // JSON Schema of the answer; nil for text
	MaxTokens     int64           // of the answer; 0 for no limit
	UsageInStream bool            // a stream of chat completions includes the usage
	Previous      string          // ID of the previous response, if the request has no history
	References    []string        // ids of items that the history refers to
}

// ToolName is the name of a tool in a model's tool uses.
type ToolName struct {
	Local     string
	Namespace string // around Local, for agents that send it separately; empty for others
}

// String returns the name with its namespace, joined as Codex joins them: mcp__SERVER__TOOL.
func (t ToolName) String() string {
	if t.Namespace == "" {
		return t.Local
	}
	return strings.TrimSuffix(t.Namespace, "__") + "__" + t.Local
}

// Tool is a tool that the model may use, with the name that the agent gave it.
type Tool struct {
	Name        ToolName
	Description string
	Schema      json.RawMessage
	NoFunction  bool // its input is not a JSON object
}

// Roles of items.
const (
	User      = "user"
	Assistant = "assistant"
)

// Item is a part of a conversation: text, tools that the model asked for, or their results.
type Item struct {
	Role    string
	Text    string
	Uses    []Use
	Results []Result
}

// Use is a model's request to use a tool.
type Use struct {
	ID        string          `json:"id,omitempty"` // unique in the conversation; empty if the API has none
	Name      string          `json:"name"`         // as the agent calls the tool
	Arguments json.RawMessage `json:"arguments"`    // a JSON value; a string if the arguments are not valid JSON
}

// Result is the result of a tool's use, as the agent sends it to the model.
type Result struct {
	ID    string // of the use
	Name  string // of the tool, if the API has it
	Text  string // all its text, joined
	Error bool
}

// Key identifies a use in its results: by its ID, or by the tool's name if the API has no
// IDs.
func (u Use) Key() string { return resultKey(u.ID, u.Name) }

// Key returns the [Use.Key] of the result's use.
func (r Result) Key() string { return resultKey(r.ID, r.Name) }

// resultKey returns a key in which ids and names cannot collide.
func resultKey(id, name string) string {
	if id == "" {
		return "name " + name
	}
	return "id " + id
}

// Response is the response of a model.
type Response struct {
	ID    string
	Model string
	Text  string
	Uses  []Use
	Stop  string // stop reason of the API; empty if the response was cut off
	Usage *Usage // nil if the provider counts nothing
	Error string // the provider's message, if the answer is an error
}

// Usage is the tokens of a model call, as the provider counts them. Input includes Cached and
// CacheWrites, and Output includes Reasoning.
type Usage struct {
	Input       int64 `json:"input"`
	Output      int64 `json:"output"`
	Cached      int64 `json:"cached,omitempty"`       // of the input, read from a cache
	CacheWrites int64 `json:"cache_writes,omitempty"` // of the input, written to one
	Reasoning   int64 `json:"reasoning,omitempty"`    // of the output, not shown
}

// ends are the last segments of the APIs' paths, below any base URL.
var ends = []struct {
	suffix string
	name   Name
}{
	{"/chat/completions", Chat},
	{"/responses", Responses},
	{"/messages", Messages},
	{generate, Generate},
	{streamGenerate, Generate},
}

const (
	generate       = ":generateContent"
	streamGenerate = ":streamGenerateContent"
)

// Of returns the API of a request for a model's turn, from its method and the end of its path. It
// returns false for other requests, such as lists of models.
func Of(method, path string) (Name, bool) {
	if method != "POST" {
		return "", false
	}
	path = withoutQuery(path)
	for _, end := range ends {
		if strings.HasSuffix("/"+strings.TrimPrefix(path, "/"), end.suffix) {
			return end.name, true
		}
	}
	return "", false
}

// modelIn returns the model that a path of generateContent names, between its last slash and
// its last colon.
func modelIn(path string) string {
	path = withoutQuery(path)
	path = path[strings.LastIndexByte(path, '/')+1:]
	if colon := strings.LastIndexByte(path, ':'); colon >= 0 {
		path = path[:colon]
	}
	return path
}

func withoutQuery(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return path
}

// Total returns all tokens of a call, read and written.
func (u Usage) Total() int64 { return sum(u.Input, u.Output) }

// Plus returns the tokens of two calls.
func (u Usage) Plus(other Usage) Usage {
	return Usage{
		Input:       sum(u.Input, other.Input),
		Output:      sum(u.Output, other.Output),
		Cached:      sum(u.Cached, other.Cached),
		CacheWrites: sum(u.CacheWrites, other.CacheWrites),
		Reasoning:   sum(u.Reasoning, other.Reasoning),
	}
}

// counted returns a provider's counts with negative ones set to 0, and no part larger than its
// whole.
func counted(u Usage) *Usage {
	u.Input, u.Output = max(u.Input, 0), max(u.Output, 0)
	u.Cached = min(max(u.Cached, 0), u.Input)
	u.CacheWrites = min(max(u.CacheWrites, 0), u.Input-u.Cached)
	u.Reasoning = min(max(u.Reasoning, 0), u.Output)
	return &u
}

// sum adds counts that are not negative. It returns the maximum on overflow.
func sum(counts ...int64) int64 {
	total := int64(0)
	for _, n := range counts {
		if n > math.MaxInt64-total {
			return math.MaxInt64
		}
		total += n
	}
	return total
}
