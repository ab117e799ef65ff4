package dialect

import (
	"encoding/json"
	"strings"
)

type chatTool struct {
	Function chatFunction `json:"function"`
	Custom   chatFunction `json:"custom"`
}

type chatFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

type chatMessage struct {
	Role       string     `json:"role"`
	Content    content    `json:"content"`
	ToolCalls  []chatCall `json:"tool_calls"`
	ToolCallID string     `json:"tool_call_id"`
	Name       string     `json:"name"`
}

// chatCall is a tool's use, or in a stream what comes next of one.
type chatCall struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function *struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
	Custom *struct {
		Name  string `json:"name"`
		Input string `json:"input"`
	} `json:"custom"`
}

func (c chatCall) named() (name, args string) {
	switch {
	case c.Function != nil:
		return c.Function.Name, c.Function.Arguments
	case c.Custom != nil:
		return c.Custom.Name, c.Custom.Input
	}
	return "", ""
}

func chatRequest(body []byte) (Request, error) {
	var asked struct {
		Model    string        `json:"model"`
		Stream   bool          `json:"stream"`
		Messages []chatMessage `json:"messages"`
		Tools    []chatTool    `json:"tools"`
	}
	if err := decode(body, &asked); err != nil {
		return Request{}, err
	}
	request := Request{Model: asked.Model, Stream: asked.Stream}
	var system []string
	for _, message := range asked.Messages {
		switch message.Role {
		case "system", "developer":
			system = append(system, message.Content.said())
		default:
			request.Items = append(request.Items, message.item())
		}
	}
	request.System = strings.Join(system, "\n")
	for _, tool := range asked.Tools {
		f := tool.Function
		if f.Name == "" {
			f = tool.Custom
		}
		request.Tools = append(request.Tools, Tool{Name: f.Name, Description: f.Description, Schema: f.Parameters})
	}
	return request, nil
}

func (m chatMessage) item() Item {
	switch m.Role {
	case "tool", "function":
		return Item{Role: User, Results: []Result{{ID: m.ToolCallID, Name: m.Name, Text: m.Content.said()}}}
	case Assistant:
		item := Item{Role: Assistant, Text: m.Content.said()}
		for _, call := range m.ToolCalls {
			name, args := call.named()
			item.Uses = append(item.Uses, Use{ID: call.ID, Name: name, Arguments: arguments(args)})
		}
		return item
	}
	return Item{Role: User, Text: m.Content.said()}
}

type chatChoice struct {
	Index        int        `json:"index"`
	Delta        *chatAdded `json:"delta"`
	Message      *chatAdded `json:"message"`
	FinishReason string     `json:"finish_reason"`
}

type chatAdded struct {
	Content          content    `json:"content"`
	Refusal          string     `json:"refusal"`
	ReasoningContent string     `json:"reasoning_content"` // DeepSeek, vLLM
	Reasoning        string     `json:"reasoning"`         // OpenRouter, Ollama
	ToolCalls        []chatCall `json:"tool_calls"`
}

type chatUsage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	PromptDetails    struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func chatDelta(event []byte) (delta, error) {
	var told struct {
		ID      string       `json:"id"`
		Model   string       `json:"model"`
		Choices []chatChoice `json:"choices"`
		Usage   *chatUsage   `json:"usage"`
		Error   problem      `json:"error"`
	}
	if err := decode(event, &told); err != nil {
		return delta{}, err
	}
	d := delta{id: told.ID, model: told.Model, err: told.Error.Message}
	if u := told.Usage; u != nil {
		d.usage = counted(Usage{
			Input: u.PromptTokens, Output: u.CompletionTokens,
			Cached: u.PromptDetails.CachedTokens, Reasoning: u.CompletionDetails.ReasoningTokens,
		})
	}
	for _, choice := range told.Choices {
		if choice.FinishReason != "" {
			d.stop = choice.FinishReason
		}
		if choice.Message != nil {
			d.takeChat(choice.Index, choice.Message)
		}
		if choice.Delta != nil {
			d.takeChat(choice.Index, choice.Delta)
		}
	}
	return d, nil
}

// takeChat adds what a choice says: text in its slot 0, uses in those behind it.
func (d *delta) takeChat(choice int, added *chatAdded) {
	if added.ReasoningContent != "" || added.Reasoning != "" {
		d.thinks = true
	}
	if text := added.Content.said() + added.Refusal; text != "" {
		d.pieces = append(d.pieces, piece{slot: slot{part: choice}, text: text})
	}
	for i, call := range added.ToolCalls {
		at := slot{part: choice, index: i + 1}
		switch {
		case call.Index != nil:
			at.index = *call.Index + 1
		case call.ID != "":
			at.id = call.ID
		}
		name, args := call.named()
		d.pieces = append(d.pieces, piece{slot: at, use: true, id: call.ID, name: name, text: args})
	}
}
