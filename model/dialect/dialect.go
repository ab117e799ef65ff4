// Package dialect reads requests and answers of four model APIs, streamed or not: OpenAI's
// chat completions and responses, Anthropic's messages, Google's generateContent.
//
// It is pure: bytes in, values out. Nothing that it reads is believed to be well
// formed, and what it does not know it leaves out.
package dialect

import "encoding/json"

// Name is one of the shapes.
type Name string

const (
	Chat      Name = "chat_completions" // POST …/chat/completions
	Responses Name = "responses"        // POST …/responses
	Messages  Name = "messages"         // POST …/messages
	Generate  Name = "generate_content" // POST …/models/MODEL:generateContent, :streamGenerateContent
)

// Request is what an agent asks a model: the whole conversation so far.
type Request struct {
	Model  string
	Stream bool
	System string
	Tools  []Tool
	Items  []Item
}

// Tool is a tool that the model may use, under the name that the agent gave it.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage
}

// Roles of items.
const (
	User      = "user"
	Assistant = "assistant"
)

// Item is a part of a conversation: text, tools that the model asked for, or what came
// of them.
type Item struct {
	Role    string
	Text    string
	Uses    []Use
	Results []Result
}

// Use is a tool that a model asks for.
type Use struct {
	ID        string          // unique in the conversation; empty where the dialect has none
	Name      string          // as the agent calls the tool
	Arguments json.RawMessage // a JSON value; a string of it where that is no JSON
}

// Result is what the agent tells the model of a tool's use.
type Result struct {
	ID    string // of the use
	Name  string // of the tool, where the dialect says so
	Text  string // all text of it, joined
	Error bool
}

// Key is what a use shares with its results: its id, or the tool's name where the dialect
// gives uses none.
func (u Use) Key() string { return resultKey(u.ID, u.Name) }

// Key is that of the use which the result is of.
func (r Result) Key() string { return resultKey(r.ID, r.Name) }

// resultKey keeps ids and names apart.
func resultKey(id, name string) string {
	if id == "" {
		return "name " + name
	}
	return "id " + id
}

// Response is what a model answers.
type Response struct {
	ID    string
	Model string
	Text  string
	Uses  []Use
	Stop  string // the dialect's own word for why the answer ended; empty where it was cut off
	Usage *Usage // nil where the provider tells nothing
	Error string // the provider's message, where the answer is an error
}

// Usage is what a model call took, in tokens, by the provider's count. Input holds
// Cached and CacheWrites too, and Output holds Reasoning.
type Usage struct {
	Input       int64 `json:"input"`
	Output      int64 `json:"output"`
	Cached      int64 `json:"cached,omitempty"`       // of the input, read from a cache
	CacheWrites int64 `json:"cache_writes,omitempty"` // of the input, written to one
	Reasoning   int64 `json:"reasoning,omitempty"`    // of the output, not shown
}
