package dialect

import "encoding/json"

func messagesRequest(_ string, body []byte) (Request, error) {
	var asked struct {
		Stream   bool    `json:"stream"`
		System   content `json:"system"`
		Messages []struct {
			Role    string  `json:"role"`
			Content content `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			InputSchema json.RawMessage `json:"input_schema"`
		} `json:"tools"`

		MaxTokens    int64        `json:"max_tokens"`
		OutputFormat schemaFormat `json:"output_format"`
		OutputConfig struct {
			Format schemaFormat `json:"format"`
		} `json:"output_config"`
	}
	if err := decode(body, &asked); err != nil {
		return Request{}, err
	}
	request := Request{
		Stream: asked.Stream, System: asked.System.said(),
		Format: schemaOf(asked.OutputFormat, asked.OutputConfig.Format), MaxTokens: asked.MaxTokens,
	}
	for _, message := range asked.Messages {
		item := Item{Role: User, Text: message.Content.said()}
		if message.Role == Assistant {
			item.Role = Assistant
		}
		for _, b := range message.Content {
			item.addTool(b)
		}
		request.Items = append(request.Items, item)
	}
	for _, tool := range asked.Tools {
		request.Tools = append(request.Tools, Tool{
			Name: ToolName{Local: tool.Name}, Description: tool.Description, Schema: tool.InputSchema,
		})
	}
	return request, nil
}

// addTool adds a block that is a tool's use or its result.
func (i *Item) addTool(b block) {
	switch b.Type {
	case "tool_use":
		i.Uses = append(i.Uses, Use{ID: b.ID, Name: b.Name, Arguments: arguments(string(b.Input))})
	case "tool_result":
		var reported content
		reported.read(b.Content)
		i.Results = append(i.Results, Result{ID: b.ToolUseID, Text: reported.said(), Error: b.IsError})
	}
}

type messagesUsage struct {
	InputTokens   int64 `json:"input_tokens"`
	OutputTokens  int64 `json:"output_tokens"`
	CacheCreation int64 `json:"cache_creation_input_tokens"`
	CacheRead     int64 `json:"cache_read_input_tokens"`
}

// normal returns the counts of u, with tokens read from and written to the cache included in Input.
func (u *messagesUsage) normal() *Usage {
	if u == nil {
		return nil
	}
	cached, written := max(u.CacheRead, 0), max(u.CacheCreation, 0)
	return counted(Usage{
		Input:  sum(max(u.InputTokens, 0), cached, written),
		Output: u.OutputTokens, Cached: cached, CacheWrites: written,
	})
}

type messagesWhole struct {
	ID         string         `json:"id"`
	Model      string         `json:"model"`
	Content    []block        `json:"content"`
	StopReason string         `json:"stop_reason"`
	Usage      *messagesUsage `json:"usage"`
}

// messagesDelta reads an event of a stream or a whole answer, which is a message.
func messagesDelta(event []byte) (delta, error) {
	var reported struct {
		Type         string         `json:"type"`
		Message      *messagesWhole `json:"message"`
		Index        int            `json:"index"`
		ContentBlock *block         `json:"content_block"`
		Delta        struct {
			Type        string `json:"type"`
			Text        string `json:"text"`
			PartialJSON string `json:"partial_json"`
			Thinking    string `json:"thinking"`
			StopReason  string `json:"stop_reason"`
		} `json:"delta"`
		Usage *messagesUsage `json:"usage"`
		Error problem        `json:"error"`
	}
	if err := decode(event, &reported); err != nil {
		return delta{}, err
	}
	at := slot{part: reported.Index}
	switch reported.Type {
	case "message":
		var whole messagesWhole
		if err := decode(event, &whole); err != nil {
			return delta{}, err
		}
		return whole.delta(), nil
	case "message_start":
		if reported.Message != nil {
			return reported.Message.delta(), nil
		}
	case "content_block_start":
		if reported.ContentBlock != nil {
			return reported.ContentBlock.delta(at), nil
		}
	case "content_block_delta":
		switch reported.Delta.Type {
		case "text_delta":
			return delta{pieces: []piece{{slot: at, text: reported.Delta.Text}}}, nil
		case "input_json_delta":
			return delta{pieces: []piece{{slot: at, text: reported.Delta.PartialJSON}}}, nil
		}
		return delta{thinks: reported.Delta.Thinking != ""}, nil
	case "message_delta":
		return delta{stop: reported.Delta.StopReason, usage: reported.Usage.normal()}, nil
	}
	return delta{err: reported.Error.Message}, nil
}

func (w *messagesWhole) delta() delta {
	d := delta{id: w.ID, model: w.Model, stop: w.StopReason, usage: w.Usage.normal()}
	for i, b := range w.Content {
		added := b.delta(slot{part: i})
		d.pieces = append(d.pieces, added.pieces...)
		d.thinks = d.thinks || added.thinks
	}
	return d
}

// delta returns the start of a block. The input of a use is an empty object if it follows
// in pieces.
func (b *block) delta(at slot) delta {
	switch b.Type {
	case "text":
		return delta{pieces: []piece{{slot: at, text: b.Text}}}
	case "tool_use":
		input := string(b.Input)
		if input == "{}" || input == "null" {
			input = ""
		}
		return delta{pieces: []piece{{slot: at, use: true, id: b.ID, name: b.Name, text: input}}}
	case "redacted_thinking":
		return delta{thinks: true}
	}
	return delta{}
}

// writeMessages writes an answer that is not streamed.
func writeMessages(a Answer) any {
	content := []any{}
	if a.hasText() {
		content = append(content, object{"type": "text", "text": a.Text})
	}
	for i, u := range a.Uses {
		content = append(content, messagesUse(a, i, u.Arguments))
	}
	return messagesBody(a, content, messagesStop(a), a.Usage.Output)
}

func messagesBody(a Answer, content []any, stop any, output int64) object {
	return object{
		"id": a.ID("msg", 0), "type": "message", "role": "assistant", "model": a.Model,
		"content": content, "stop_reason": stop, "stop_sequence": nil,
		"usage": messagesCounts(a, output),
	}
}

// messagesCounts returns usage in which tokens read from the cache are counted separately.
func messagesCounts(a Answer, output int64) object {
	return object{
		"input_tokens": a.Usage.Input - a.Usage.Cached, "cache_creation_input_tokens": 0,
		"cache_read_input_tokens": a.Usage.Cached, "output_tokens": output,
	}
}

func messagesUse(a Answer, i int, input json.RawMessage) object {
	return object{"type": "tool_use", "id": a.ID("toolu", i+1), "name": a.Uses[i].Tool.String(), "input": input}
}

func messagesStop(a Answer) string {
	if len(a.Uses) > 0 {
		return "tool_use"
	}
	return "end_turn"
}

// messagesEvents writes an answer as a stream.
func messagesEvents(a Answer) []Event {
	s := messagesStream{}
	s.add("message_start", object{"message": messagesBody(a, []any{}, nil, 1)})
	if a.hasText() {
		s.block(object{"type": "text", "text": ""}, "text_delta", "text", words(a.Text))
	}
	for i, u := range a.Uses {
		s.block(messagesUse(a, i, json.RawMessage("{}")), "input_json_delta", "partial_json", append([]string{""}, pieces(u.Arguments)...))
	}
	s.add("message_delta", object{
		"delta": object{"stop_reason": messagesStop(a), "stop_sequence": nil},
		"usage": messagesCounts(a, a.Usage.Output),
	})
	s.add("message_stop", object{})
	return s.all
}

type messagesStream struct {
	blocks int // so far
	all    []Event
}

func (s *messagesStream) add(kind string, fields object) {
	fields["type"] = kind
	s.all = append(s.all, Event{kind, fields})
}

// block adds a content block with a delta for each piece, in the field key.
func (s *messagesStream) block(start object, kind, key string, pieces []string) {
	s.add("content_block_start", object{"index": s.blocks, "content_block": start})
	if s.blocks == 0 {
		s.add("ping", object{})
	}
	for _, piece := range pieces {
		s.add("content_block_delta", object{"index": s.blocks, "delta": object{"type": kind, key: piece}})
	}
	s.add("content_block_stop", object{"index": s.blocks})
	s.blocks++
}

// messagesFailure writes an error.
func messagesFailure(f Failure) any {
	kind := map[int]string{
		401: "authentication_error", 403: "permission_error", 404: "not_found_error",
		413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
	}[f.Status]
	switch {
	case f.Type != "" && f.Status != 429:
		kind = f.Type
	case kind == "" && f.Status >= 500:
		kind = "api_error"
	case kind == "":
		kind = "invalid_request_error"
	}
	return object{"type": "error", "error": object{"type": kind, "message": f.Message}}
}

func messagesModel(model string) object {
	return object{"type": "model", "id": model, "display_name": model, "created_at": "2023-11-14T22:13:20Z"}
}

func messagesModels(models []any, names []string) any {
	return object{"data": models, "has_more": false, "first_id": names[0], "last_id": names[len(names)-1]}
}
