package dialect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// responsesItem is an item of a conversation, in a request or a response.
type responsesItem struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Role      string          `json:"role"`
	Content   content         `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Namespace string          `json:"namespace"`
	Arguments json.RawMessage `json:"arguments"` // a string; an object for tool_search_call
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

func responsesRequest(_ string, body []byte) (Request, error) {
	var asked struct {
		Stream       bool            `json:"stream"`
		Instructions content         `json:"instructions"`
		Input        responsesInput  `json:"input"`
		Tools        []responsesTool `json:"tools"`

		MaxOutputTokens    int64  `json:"max_output_tokens"`
		PreviousResponseID string `json:"previous_response_id"`
		Text               struct {
			Format schemaFormat `json:"format"`
		} `json:"text"`
	}
	if err := decode(body, &asked); err != nil {
		return Request{}, err
	}
	request := Request{
		Stream: asked.Stream, Format: schemaOf(asked.Text.Format),
		MaxTokens: asked.MaxOutputTokens, Previous: asked.PreviousResponseID,
	}
	system := []string{}
	if text := asked.Instructions.said(); text != "" {
		system = append(system, text)
	}
	for _, given := range asked.Input {
		if given.Type == "item_reference" {
			request.References = append(request.References, given.ID)
		}
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

// flat returns the tool, or the tools of a namespace. The provider's own tools have no name.
func (t responsesTool) flat() []Tool {
	if t.Type != "namespace" {
		if t.Name == "" {
			return nil
		}
		return []Tool{t.tool("")}
	}
	tools := make([]Tool, 0, len(t.Tools))
	for _, inner := range t.Tools {
		tools = append(tools, inner.tool(t.Name))
	}
	return tools
}

func (t responsesTool) tool(namespace string) Tool {
	return Tool{
		Name: ToolName{Local: t.Name, Namespace: namespace}, Description: t.Description,
		Schema: t.Parameters, NoFunction: t.Type != "function",
	}
}

// within returns a tool's name with its namespace.
func within(namespace, name string) string { return ToolName{name, namespace}.String() }

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

// input returns the arguments of a use, as text.
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

// responsesDelta decodes an event of a stream, or a complete response, which has no type.
func responsesDelta(event []byte) (delta, error) {
	var reported struct {
		Type        string          `json:"type"`
		Response    *responsesWhole `json:"response"`
		Item        *responsesItem  `json:"item"`
		OutputIndex int             `json:"output_index"`
		Delta       string          `json:"delta"`
		Message     string          `json:"message"`
		Error       problem         `json:"error"`
	}
	if err := decode(event, &reported); err != nil {
		return delta{}, err
	}
	at := slot{part: reported.OutputIndex}
	switch reported.Type {
	case "":
		var whole responsesWhole
		if err := decode(event, &whole); err != nil {
			return delta{}, err
		}
		return whole.delta(), nil
	case "error":
		return delta{err: cmp.Or(reported.Message, reported.Error.Message)}, nil
	case "response.output_text.delta", "response.refusal.delta":
		return delta{pieces: []piece{{slot: at, text: reported.Delta}}}, nil
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		return delta{pieces: []piece{{slot: at, use: true, text: reported.Delta}}}, nil
	case "response.reasoning_text.delta", "response.reasoning_summary_text.delta":
		return delta{thinks: reported.Delta != ""}, nil
	}
	if reported.Response != nil {
		return reported.Response.delta(), nil
	}
	if reported.Item != nil {
		return reported.Item.delta(at), nil
	}
	return delta{}, nil
}

func (w *responsesWhole) delta() delta {
	d := delta{id: w.ID, model: w.Model, err: w.Error.Message}
	if w.Status != "in_progress" && w.Status != "queued" {
		d.stop = w.Status
	}
	d.stop = cmp.Or(w.IncompleteDetails.Reason, d.stop)
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

// delta returns the complete item, which replaces its streamed parts.
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

// writeResponses writes an answer that is not streamed.
func writeResponses(a Answer) any { return responsesBody(a, "completed", responsesOutput(a)) }

func responsesBody(a Answer, status string, output []any) object {
	body := object{
		"id": a.ID("resp", 0), "object": "response", "created_at": created, "status": status, "model": a.Model, "output": output,
		"error": nil, "incomplete_details": nil, "instructions": nil, "metadata": object{}, "parallel_tool_calls": true,
		"previous_response_id": nil, "store": false, "temperature": 1, "text": object{"format": object{"type": "text"}},
		"tool_choice": "auto", "tools": []any{}, "top_p": 1, "truncation": "disabled", "usage": nil,
	}
	if status == "completed" {
		body["usage"] = object{
			"input_tokens": a.Usage.Input, "input_tokens_details": object{"cached_tokens": a.Usage.Cached},
			"output_tokens": a.Usage.Output, "output_tokens_details": object{"reasoning_tokens": 0},
			"total_tokens": a.Usage.Input + a.Usage.Output,
		}
	}
	return body
}

func responsesOutput(a Answer) []any {
	output := []any{}
	if a.hasText() {
		output = append(output, responsesMessage(a, "completed", []any{responsesText(a.Text)}))
	}
	for i, u := range a.Uses {
		output = append(output, responsesCall(a, i, "completed", string(u.Arguments)))
	}
	return output
}

func responsesMessage(a Answer, status string, content []any) object {
	return object{"id": a.ID("msg", 0), "type": "message", "status": status, "role": "assistant", "content": content}
}

func responsesText(text string) object {
	return object{"type": "output_text", "annotations": []any{}, "logprobs": []any{}, "text": text}
}

func responsesCall(a Answer, i int, status, arguments string) object {
	tool := a.Uses[i].Tool
	call := object{
		"id": a.ID("fc", i+1), "type": "function_call", "status": status,
		"call_id": a.ID("call", i+1), "name": tool.Local, "arguments": arguments,
	}
	if tool.Namespace != "" {
		call["namespace"] = tool.Namespace
	}
	return call
}

// responsesEvents writes an answer as a stream.
func responsesEvents(a Answer) []Event {
	s := responsesStream{answer: a}
	s.add("response.created", object{"response": responsesBody(a, "in_progress", []any{})})
	s.add("response.in_progress", object{"response": responsesBody(a, "in_progress", []any{})})
	if a.hasText() {
		s.message()
	}
	for i := range a.Uses {
		s.call(i)
	}
	s.add("response.completed", object{"response": writeResponses(a)})
	return s.all
}

// responsesStream collects numbered events.
type responsesStream struct {
	answer Answer
	output int // items so far
	all    []Event
}

func (s *responsesStream) add(kind string, fields object) {
	fields["type"], fields["sequence_number"] = kind, len(s.all)
	s.all = append(s.all, Event{kind, fields})
}

func (s *responsesStream) message() {
	id, text := s.answer.ID("msg", 0), s.answer.Text
	in := func(more object) object {
		more["item_id"], more["output_index"], more["content_index"] = id, s.output, 0
		return more
	}
	s.add("response.output_item.added", object{"output_index": s.output, "item": responsesMessage(s.answer, "in_progress", []any{})})
	s.add("response.content_part.added", in(object{"part": responsesText("")}))
	for _, word := range words(text) {
		s.add("response.output_text.delta", in(object{"delta": word, "logprobs": []any{}}))
	}
	s.add("response.output_text.done", in(object{"text": text, "logprobs": []any{}}))
	s.add("response.content_part.done", in(object{"part": responsesText(text)}))
	s.add("response.output_item.done", object{"output_index": s.output, "item": responsesMessage(s.answer, "completed", []any{responsesText(text)})})
	s.output++
}

func (s *responsesStream) call(i int) {
	id, arguments := s.answer.ID("fc", i+1), s.answer.Uses[i].Arguments
	s.add("response.output_item.added", object{"output_index": s.output, "item": responsesCall(s.answer, i, "in_progress", "")})
	for _, piece := range pieces(arguments) {
		s.add("response.function_call_arguments.delta", object{"item_id": id, "output_index": s.output, "delta": piece})
	}
	s.add("response.function_call_arguments.done", object{"item_id": id, "output_index": s.output, "arguments": string(arguments)})
	s.add("response.output_item.done", object{"output_index": s.output, "item": responsesCall(s.answer, i, "completed", string(arguments))})
	s.output++
}
