package stub

import "encoding/json"

// messages is Anthropic's messages.
type messages struct{}

func (messages) whole(a answer) any {
	content := []any{}
	if a.says() {
		content = append(content, object{"type": "text", "text": a.text})
	}
	for i, u := range a.uses {
		content = append(content, messagesUse(a, i, u.arguments))
	}
	return messagesBody(a, content, messagesStop(a), a.usage.Output)
}

func messagesBody(a answer, content []any, stop any, output int64) object {
	return object{
		"id": a.id("msg"), "type": "message", "role": "assistant", "model": a.model,
		"content": content, "stop_reason": stop, "stop_sequence": nil,
		"usage": messagesUsage(a, output),
	}
}

// messagesUsage counts apart from the rest what was read from a cache.
func messagesUsage(a answer, output int64) object {
	return object{
		"input_tokens": a.usage.Input - a.usage.Cached, "cache_creation_input_tokens": 0,
		"cache_read_input_tokens": a.usage.Cached, "output_tokens": output,
	}
}

func messagesUse(a answer, i int, input json.RawMessage) object {
	return object{"type": "tool_use", "id": a.idOf("toolu", i), "name": a.uses[i].tool.full(), "input": input}
}

func messagesStop(a answer) string {
	if len(a.uses) > 0 {
		return "tool_use"
	}
	return "end_turn"
}

func (messages) events(a answer, _ *request) []event {
	s := messagesStream{}
	s.add("message_start", object{"message": messagesBody(a, []any{}, nil, 1)})
	if a.says() {
		s.block(object{"type": "text", "text": ""}, "text_delta", "text", words(a.text))
	}
	for i, u := range a.uses {
		s.block(messagesUse(a, i, json.RawMessage("{}")), "input_json_delta", "partial_json", append([]string{""}, pieces(u.arguments)...))
	}
	s.add("message_delta", object{
		"delta": object{"stop_reason": messagesStop(a), "stop_sequence": nil},
		"usage": messagesUsage(a, a.usage.Output),
	})
	s.add("message_stop", object{})
	return s.all
}

type messagesStream struct {
	blocks int // so far
	all    []event
}

func (s *messagesStream) add(kind string, fields object) {
	fields["type"] = kind
	s.all = append(s.all, event{kind, fields})
}

// block is a block of content that comes in deltas, whose field key has each piece.
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

func (messages) failure(status int, message string, _ *float64) any {
	kind := map[int]string{
		401: "authentication_error", 403: "permission_error", 404: "not_found_error",
		413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
	}[status]
	switch {
	case kind == "" && status >= 500:
		kind = "api_error"
	case kind == "":
		kind = "invalid_request_error"
	}
	return object{"type": "error", "error": object{"type": kind, "message": message}}
}
