package dialect

import (
	"cmp"
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

// chatCall is a tool's use, or in a stream the next part of one.
type chatCall struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
	Custom struct {
		Name  string `json:"name"`
		Input string `json:"input"`
	} `json:"custom"`
}

func (c chatCall) named() (name, args string) {
	return cmp.Or(c.Function.Name, c.Custom.Name), cmp.Or(c.Function.Arguments, c.Custom.Input)
}

func chatRequest(_ string, body []byte) (Request, error) {
	var asked struct {
		Stream   bool          `json:"stream"`
		Messages []chatMessage `json:"messages"`
		Tools    []chatTool    `json:"tools"`

		MaxTokens           int64 `json:"max_tokens"`
		MaxCompletionTokens int64 `json:"max_completion_tokens"`
		StreamOptions       struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
		ResponseFormat struct {
			Type       string       `json:"type"`
			JSONSchema schemaFormat `json:"json_schema"`
		} `json:"response_format"`
	}
	if err := decode(body, &asked); err != nil {
		return Request{}, err
	}
	request := Request{
		Stream:    asked.Stream,
		Format:    schemaOf(schemaFormat{asked.ResponseFormat.Type, asked.ResponseFormat.JSONSchema.Schema}),
		MaxTokens: max(asked.MaxTokens, asked.MaxCompletionTokens), UsageInStream: asked.StreamOptions.IncludeUsage,
	}
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
		f, custom := tool.Function, tool.Function.Name == ""
		if custom {
			f = tool.Custom
		}
		request.Tools = append(request.Tools, Tool{Name: ToolName{Local: f.Name}, Description: f.Description, Schema: f.Parameters, NoFunction: custom})
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
	var reported struct {
		ID      string       `json:"id"`
		Model   string       `json:"model"`
		Choices []chatChoice `json:"choices"`
		Usage   *chatUsage   `json:"usage"`
		Error   problem      `json:"error"`
	}
	if err := decode(event, &reported); err != nil {
		return delta{}, err
	}
	d := delta{id: reported.ID, model: reported.Model, err: reported.Error.Message}
	if u := reported.Usage; u != nil {
		d.usage = counted(Usage{
			Input: u.PromptTokens, Output: u.CompletionTokens,
			Cached: u.PromptDetails.CachedTokens, Reasoning: u.CompletionDetails.ReasoningTokens,
		})
	}
	for _, choice := range reported.Choices {
		d.stop = cmp.Or(choice.FinishReason, d.stop)
		for _, added := range []*chatAdded{choice.Message, choice.Delta} {
			if added != nil {
				d.takeChat(choice.Index, added)
			}
		}
	}
	return d, nil
}

// takeChat adds the delta of a choice: text in slot 0, and tool uses in the following
// slots.
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

// chatWhole writes an answer that is not streamed.
func chatWhole(a Answer) any {
	message := object{"role": "assistant", "content": textOrNull(a), "refusal": nil}
	if calls := chatUses(a); len(calls) > 0 {
		message["tool_calls"] = calls
	}
	return object{
		"id": a.ID("chatcmpl", 0), "object": "chat.completion", "created": created, "model": a.Model,
		"choices": []any{object{"index": 0, "message": message, "logprobs": nil, "finish_reason": chatStop(a)}},
		"usage":   chatCounts(a),
	}
}

func textOrNull(a Answer) any {
	if a.Text == "" && len(a.Uses) > 0 {
		return nil
	}
	return a.Text
}

func chatUses(a Answer) []any {
	var calls []any
	for i, u := range a.Uses {
		calls = append(calls, object{
			"id": a.ID("call", i+1), "type": "function",
			"function": object{"name": u.Tool.String(), "arguments": string(u.Arguments)},
		})
	}
	return calls
}

func chatStop(a Answer) string {
	if len(a.Uses) > 0 {
		return "tool_calls"
	}
	return "stop"
}

func chatCounts(a Answer) object {
	return object{
		"prompt_tokens": a.Usage.Input, "completion_tokens": a.Usage.Output, "total_tokens": a.Usage.Input + a.Usage.Output,
		"prompt_tokens_details":     object{"cached_tokens": a.Usage.Cached},
		"completion_tokens_details": object{"reasoning_tokens": 0},
	}
}

// chatEvents writes an answer as a stream.
func chatEvents(a Answer) []Event {
	var all []Event
	chunk := func(delta object, stop any) {
		made := chatChunk(a, []any{object{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": stop}})
		if a.UsageInStream {
			made["usage"] = nil
		}
		all = append(all, Event{Data: made})
	}
	chunk(object{"role": "assistant", "content": ""}, nil)
	for _, word := range words(a.Text) {
		chunk(object{"content": word}, nil)
	}
	for i, u := range a.Uses {
		function := object{"name": u.Tool.String(), "arguments": ""}
		chunk(object{"tool_calls": []any{object{"index": i, "id": a.ID("call", i+1), "type": "function", "function": function}}}, nil)
		for _, piece := range pieces(u.Arguments) {
			chunk(object{"tool_calls": []any{object{"index": i, "function": object{"arguments": piece}}}}, nil)
		}
	}
	chunk(object{}, chatStop(a))
	if a.UsageInStream {
		last := chatChunk(a, []any{})
		last["usage"] = chatCounts(a)
		all = append(all, Event{Data: last})
	}
	return append(all, Event{Data: doneWord})
}

func chatChunk(a Answer, choices []any) object {
	return object{"id": a.ID("chatcmpl", 0), "object": "chat.completion.chunk", "created": created, "model": a.Model, "choices": choices}
}

// openAIFailure writes an error as both APIs of OpenAI have it.
func openAIFailure(f Failure) any {
	kind, code := "invalid_request_error", any(nil)
	switch {
	case f.Type != "":
		kind, code = f.Type, f.Type
	case f.Status == 401:
		code = "invalid_api_key"
	case f.Status == 404:
		code = "not_found"
	case f.Status == 429:
		kind, code = "rate_limit_error", "rate_limit_exceeded"
	case f.Status >= 500:
		kind = "server_error"
	}
	return object{"error": object{"message": f.Message, "type": kind, "param": nil, "code": code}}
}

// openAIModel writes one model of a list.
func openAIModel(model string) object {
	return object{"id": model, "object": "model", "created": created, "owned_by": "script"}
}

func openAIModels(models []any, _ []string) any { return object{"object": "list", "data": models} }
