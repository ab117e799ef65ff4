package dialect

import "encoding/json"

func messagesRequest(body []byte) (Request, error) {
	var asked struct {
		Model    string  `json:"model"`
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
	}
	if err := decode(body, &asked); err != nil {
		return Request{}, err
	}
	request := Request{Model: asked.Model, Stream: asked.Stream, System: asked.System.said()}
	for _, message := range asked.Messages {
		item := Item{Role: User, Text: message.Content.said()}
		if message.Role == Assistant {
			item.Role = Assistant
		}
		for _, b := range message.Content.blocks {
			item.take(b)
		}
		request.Items = append(request.Items, item)
	}
	for _, tool := range asked.Tools {
		request.Tools = append(request.Tools, Tool{
			Name: tool.Name, Description: tool.Description, Schema: tool.InputSchema,
		})
	}
	return request, nil
}

// take adds a block that is a tool's use or its result.
func (i *Item) take(b block) {
	switch b.Type {
	case "tool_use":
		i.Uses = append(i.Uses, Use{ID: b.ID, Name: b.Name, Arguments: arguments(string(b.Input))})
	case "tool_result":
		var told content
		told.read(b.Content)
		i.Results = append(i.Results, Result{ID: b.ToolUseID, Text: told.said(), Error: b.IsError})
	}
}

type messagesUsage struct {
	InputTokens   int64 `json:"input_tokens"`
	OutputTokens  int64 `json:"output_tokens"`
	CacheCreation int64 `json:"cache_creation_input_tokens"`
	CacheRead     int64 `json:"cache_read_input_tokens"`
}

// normal counts what the cache gave and took as input too, which the dialect leaves out.
func (u *messagesUsage) normal() *Usage {
	if u == nil {
		return nil
	}
	cached, written := atLeast0(u.CacheRead), atLeast0(u.CacheCreation)
	return counted(Usage{
		Input:  sum(atLeast0(u.InputTokens), cached, written),
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

// messagesDelta reads an event of a stream, or a whole answer, which is a message.
func messagesDelta(event []byte) (delta, error) {
	var told struct {
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
	if err := decode(event, &told); err != nil {
		return delta{}, err
	}
	at := slot{part: told.Index}
	switch told.Type {
	case "message":
		var whole messagesWhole
		if err := decode(event, &whole); err != nil {
			return delta{}, err
		}
		return whole.delta(), nil
	case "message_start":
		if told.Message != nil {
			return told.Message.delta(), nil
		}
	case "content_block_start":
		if told.ContentBlock != nil {
			return told.ContentBlock.delta(at), nil
		}
	case "content_block_delta":
		switch told.Delta.Type {
		case "text_delta":
			return delta{pieces: []piece{{slot: at, text: told.Delta.Text}}}, nil
		case "input_json_delta":
			return delta{pieces: []piece{{slot: at, text: told.Delta.PartialJSON}}}, nil
		}
		return delta{thinks: told.Delta.Thinking != ""}, nil
	case "message_delta":
		return delta{stop: told.Delta.StopReason, usage: told.Usage.normal()}, nil
	case "error":
		return delta{err: told.Error.Message}, nil
	}
	return delta{err: told.Error.Message}, nil
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

// delta begins a block. The input of a use is an empty object where it comes piece by
// piece.
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
