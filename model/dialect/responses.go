package dialect

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// responsesItem is an item of a conversation, asked or answered.
type responsesItem struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Role      string          `json:"role"`
	Content   content         `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"`
	Arguments json.RawMessage `json:"arguments"` // a text; an object for tool_search_call
	Input     string          `json:"input"`     // of a custom tool
	Output    content         `json:"output"`
}

type responsesTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Tools       []responsesTool `json:"tools"` // of a namespace
}

// responsesInput is a text, or a list of items.
type responsesInput []responsesItem

func (in *responsesInput) UnmarshalJSON(raw []byte) error {
	if raw = bytes.TrimSpace(raw); raw[0] == '"' {
		item := responsesItem{Role: User}
		item.Content.read(raw)
		*in = responsesInput{item}
		return nil
	}
	return decode(raw, (*[]responsesItem)(in))
}

func responsesRequest(body []byte) (Request, error) {
	var asked struct {
		Model        string          `json:"model"`
		Stream       bool            `json:"stream"`
		Instructions content         `json:"instructions"`
		Input        responsesInput  `json:"input"`
		Tools        []responsesTool `json:"tools"`
	}
	if err := decode(body, &asked); err != nil {
		return Request{}, err
	}
	request := Request{Model: asked.Model, Stream: asked.Stream}
	system := []string{}
	if text := asked.Instructions.said(); text != "" {
		system = append(system, text)
	}
	for _, given := range asked.Input {
		if given.Role == "system" || given.Role == "developer" {
			system = append(system, given.Content.said())
		} else if item, ok := given.item(); ok {
			request.Items = append(request.Items, item)
		}
	}
	request.System = strings.Join(system, "\n")
	for _, tool := range asked.Tools {
		request.Tools = append(request.Tools, tool.flat()...)
	}
	return request, nil
}

// flat is the tool, or those of a namespace. Tools of the provider's own have no name.
func (t responsesTool) flat() []Tool {
	if t.Type != "namespace" {
		if t.Name == "" {
			return nil
		}
		return []Tool{{Name: t.Name, Description: t.Description, Schema: t.Parameters}}
	}
	tools := make([]Tool, 0, len(t.Tools))
	for _, inner := range t.Tools {
		tools = append(tools, Tool{
			Name: within(t.Name, inner.Name), Description: inner.Description, Schema: inner.Parameters,
		})
	}
	return tools
}

// within is a tool's name with its namespace, parted as Codex parts them: mcp__SERVER__TOOL.
func within(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return strings.TrimSuffix(namespace, "__") + "__" + name
}

func (i responsesItem) item() (Item, bool) {
	switch i.Type {
	case "", "message":
		role := User
		if i.Role == Assistant {
			role = Assistant
		}
		return Item{Role: role, Text: i.Content.said()}, true
	case "function_call", "custom_tool_call":
		return Item{Role: Assistant, Uses: []Use{{
			ID: i.CallID, Name: within(i.Namespace, i.Name), Arguments: arguments(i.input()),
		}}}, true
	case "function_call_output", "custom_tool_call_output":
		return Item{Role: User, Results: []Result{{ID: i.CallID, Text: i.Output.said()}}}, true
	}
	return Item{}, false
}

// input is what a use gives its tool, as text.
func (i responsesItem) input() string {
	if i.Type == "custom_tool_call" {
		return i.Input
	}
	var text string
	if jsontext.Unmarshal(i.Arguments, &text) == nil {
		return text
	}
	return string(i.Arguments)
}

type responsesWhole struct {
	ID                string `json:"id"`
	Model             string `json:"model"`
	Status            string `json:"status"`
	IncompleteDetails struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Output []responsesItem `json:"output"`
	Usage  *struct {
		InputTokens  int64 `json:"input_tokens"`
		OutputTokens int64 `json:"output_tokens"`
		InputDetails struct {
			CachedTokens int64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
		OutputDetails struct {
			ReasoningTokens int64 `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	} `json:"usage"`
	Error problem `json:"error"`
}

// responsesDelta reads an event of a stream, or a whole answer, which has no type.
func responsesDelta(event []byte) (delta, error) {
	var told struct {
		Type        string          `json:"type"`
		Response    *responsesWhole `json:"response"`
		Item        *responsesItem  `json:"item"`
		OutputIndex int             `json:"output_index"`
		Delta       string          `json:"delta"`
		Message     string          `json:"message"`
		Error       problem         `json:"error"`
	}
	if err := decode(event, &told); err != nil {
		return delta{}, err
	}
	at := slot{part: told.OutputIndex}
	switch told.Type {
	case "":
		var whole responsesWhole
		if err := decode(event, &whole); err != nil {
			return delta{}, err
		}
		return whole.delta(), nil
	case "error":
		message := told.Message
		if message == "" {
			message = told.Error.Message
		}
		return delta{err: message}, nil
	case "response.output_text.delta", "response.refusal.delta":
		return delta{pieces: []piece{{slot: at, text: told.Delta}}}, nil
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		return delta{pieces: []piece{{slot: at, use: true, text: told.Delta}}}, nil
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
		return delta{thinks: told.Delta != ""}, nil
	}
	if told.Response != nil {
		return told.Response.delta(), nil
	}
	if told.Item != nil {
		return told.Item.delta(at), nil
	}
	return delta{}, nil
}

func (w *responsesWhole) delta() delta {
	d := delta{id: w.ID, model: w.Model, err: w.Error.Message}
	if w.Status != "in_progress" && w.Status != "queued" {
		d.stop = w.Status
	}
	if reason := w.IncompleteDetails.Reason; reason != "" {
		d.stop = reason
	}
	if u := w.Usage; u != nil {
		d.usage = counted(Usage{
			Input: u.InputTokens, Output: u.OutputTokens,
			Cached: u.InputDetails.CachedTokens, Reasoning: u.OutputDetails.ReasoningTokens,
		})
	}
	for i, item := range w.Output {
		d.pieces = append(d.pieces, item.delta(slot{part: i}).pieces...)
	}
	return d
}

// delta takes the place of what was streamed of the item.
func (i *responsesItem) delta(at slot) delta {
	switch i.Type {
	case "message":
		return delta{pieces: []piece{{slot: at, text: i.Content.said(), whole: true}}}
	case "function_call", "custom_tool_call":
		return delta{pieces: []piece{{
			slot: at, use: true, whole: true,
			id: i.CallID, name: within(i.Namespace, i.Name), text: i.input(),
		}}}
	}
	return delta{}
}
