package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// Types of the chat completions API; see OpenAI's API reference, "Create chat completion".

// request is a request to the model, with the whole conversation.
type request struct {
	Model               string       `json:"model"`
	Messages            []message    `json:"messages"`
	Tools               []definition `json:"tools,omitempty"`
	Temperature         *float64     `json:"temperature,omitempty"`
	MaxTokens           int          `json:"max_tokens,omitempty"`
	MaxCompletionTokens int          `json:"max_completion_tokens,omitempty"` // replaces max_tokens in newer models
	ReasoningEffort     string       `json:"reasoning_effort,omitempty"`
}

// message is one message of the conversation.
type message struct {
	Role       string     `json:"role"`
	Content    any        `json:"content"` // string, list of parts, or nil
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// definition is the definition of a tool.
type definition struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

// toolCall is a tool call of the model.
type toolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function functionCall `json:"function"`
	// Extra is data that some endpoints require to be sent back.
	Extra json.RawMessage `json:"extra_content,omitempty"`
}

type functionCall struct {
	Name      string    `json:"name"`
	Arguments arguments `json:"arguments"`
}

// arguments are a tool's arguments as the model wrote them, usually JSON.
type arguments string

// UnmarshalJSON accepts a string, as in the API, and an object, which some endpoints send.
func (a *arguments) UnmarshalJSON(raw []byte) error {
	var text string
	if jsontext.Unmarshal(raw, &text) == nil {
		*a = arguments(text)
		return nil
	}
	*a = arguments(raw)
	return nil
}

// object returns the arguments as a JSON object; {} if there are none.
func (a arguments) object() (json.RawMessage, error) {
	text := strings.TrimSpace(string(a))
	if text == "" || text == "null" {
		return json.RawMessage("{}"), nil
	}
	var fields map[string]json.RawMessage
	if err := jsontext.Unmarshal([]byte(text), &fields); err != nil {
		return nil, fmt.Errorf("the arguments are not a JSON object: %w", err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(text)); err != nil {
		return nil, err
	}
	return compact.Bytes(), nil
}

// reported returns the arguments for the transcript: an object, or a string if they are not
// valid.
func (a arguments) reported() json.RawMessage {
	if object, err := a.object(); err == nil {
		return object
	}
	return encode(string(a))
}

// answer is one answer of the model.
type answer struct {
	Text  string
	Calls []toolCall
	Stop  string // finish reason of the endpoint
}

// whole returns an error if the answer is final but truncated.
func (a answer) whole() error {
	switch a.Stop {
	case "length":
		return fmt.Errorf("%w's last answer is cut off at its limit of tokens", ErrModel)
	case "content_filter":
		return fmt.Errorf("%w's last answer is cut off by the provider's content filter", ErrModel)
	}
	return nil
}

// Limits of an answer.
const (
	maxCalls = 128      // tool calls
	maxName  = 4 << 10  // bytes of a tool's name, and of a call's id
	maxBody  = 16 << 20 // bytes of the response
)

// readAnswer reads a chat completion.
func readAnswer(body []byte) (answer, error) {
	var completion struct {
		Choices []struct {
			Finish  string `json:"finish_reason"`
			Message struct {
				Content   content    `json:"content"`
				Refusal   string     `json:"refusal"`
				ToolCalls []toolCall `json:"tool_calls"`
			} `json:"message"`
		} `json:"choices"`
	}
	if err := jsontext.Unmarshal(body, &completion); err != nil {
		return answer{}, fmt.Errorf("something else than a chat completion: %s", quote(string(body)))
	}
	if len(completion.Choices) == 0 {
		return answer{}, fmt.Errorf("a chat completion without a choice: %s", quote(string(body)))
	}
	first := completion.Choices[0]
	a := answer{Text: string(first.Message.Content), Calls: first.Message.ToolCalls, Stop: first.Finish}
	if a.Text == "" {
		a.Text = first.Message.Refusal
	}
	if len(a.Calls) > maxCalls {
		return answer{}, fmt.Errorf("an answer that asks for %d tools at once; at most %d are run", len(a.Calls), maxCalls)
	}
	for _, call := range a.Calls {
		if len(call.ID) > maxName || len(call.Function.Name) > maxName {
			return answer{}, errors.New("an answer with the name or the id of a tool that is far too long to be one")
		}
	}
	return a, nil
}

// content is the text of a message: a string, or a list of parts.
type content string

// UnmarshalJSON ignores parts other than text.
func (c *content) UnmarshalJSON(raw []byte) error {
	var text string
	if jsontext.Unmarshal(raw, &text) == nil {
		*c = content(text)
		return nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = jsontext.Unmarshal(raw, &parts)
	var all strings.Builder
	for _, part := range parts {
		all.WriteString(part.Text)
	}
	*c = content(all.String())
	return nil
}
