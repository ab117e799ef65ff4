package stub

// chat is OpenAI's chat completions.
type chat struct{ openAIErrors }

func (chat) whole(a answer) any {
	message := object{"role": "assistant", "content": textOrNull(a), "refusal": nil}
	if calls := chatCalls(a); len(calls) > 0 {
		message["tool_calls"] = calls
	}
	return object{
		"id": a.id("chatcmpl"), "object": "chat.completion", "created": created, "model": a.model,
		"choices": []any{object{"index": 0, "message": message, "logprobs": nil, "finish_reason": chatStop(a)}},
		"usage":   chatUsage(a),
	}
}

func textOrNull(a answer) any {
	if a.text == "" && len(a.uses) > 0 {
		return nil
	}
	return a.text
}

func chatCalls(a answer) []any {
	var calls []any
	for i, u := range a.uses {
		calls = append(calls, object{
			"id": a.idOf("call", i), "type": "function",
			"function": object{"name": u.tool.full(), "arguments": string(u.arguments)},
		})
	}
	return calls
}

func chatStop(a answer) string {
	if len(a.uses) > 0 {
		return "tool_calls"
	}
	return "stop"
}

func chatUsage(a answer) object {
	return object{
		"prompt_tokens": a.usage.Input, "completion_tokens": a.usage.Output, "total_tokens": a.usage.Input + a.usage.Output,
		"prompt_tokens_details":     object{"cached_tokens": a.usage.Cached},
		"completion_tokens_details": object{"reasoning_tokens": 0},
	}
}

func (chat) events(a answer, r *request) []event {
	var all []event
	chunk := func(delta object, stop any) {
		made := chatChunk(a, []any{object{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": stop}})
		if r.usage {
			made["usage"] = nil
		}
		all = append(all, event{data: made})
	}
	chunk(object{"role": "assistant", "content": ""}, nil)
	for _, word := range words(a.text) {
		chunk(object{"content": word}, nil)
	}
	for i, u := range a.uses {
		function := object{"name": u.tool.full(), "arguments": ""}
		chunk(object{"tool_calls": []any{object{"index": i, "id": a.idOf("call", i), "type": "function", "function": function}}}, nil)
		for _, piece := range pieces(u.arguments) {
			chunk(object{"tool_calls": []any{object{"index": i, "function": object{"arguments": piece}}}}, nil)
		}
	}
	chunk(object{}, chatStop(a))
	if r.usage {
		last := chatChunk(a, []any{})
		last["usage"] = chatUsage(a)
		all = append(all, event{data: last})
	}
	return append(all, event{data: end})
}

func chatChunk(a answer, choices []any) object {
	return object{"id": a.id("chatcmpl"), "object": "chat.completion.chunk", "created": created, "model": a.model, "choices": choices}
}

// openAIErrors are the errors of OpenAI's dialects.
type openAIErrors struct{}

func (openAIErrors) failure(status int, message string, _ *float64) any {
	kind, code := "invalid_request_error", any(nil)
	switch {
	case status == 401:
		code = "invalid_api_key"
	case status == 404:
		code = "not_found"
	case status == 429:
		kind, code = "rate_limit_error", "rate_limit_exceeded"
	case status >= 500:
		kind = "server_error"
	}
	return object{"error": object{"message": message, "type": kind, "param": nil, "code": code}}
}
