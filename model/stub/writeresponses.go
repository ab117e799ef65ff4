package stub

// responses is OpenAI's responses.
type responses struct{ openAIErrors }

func (responses) whole(a answer) any { return responsesBody(a, "completed", responsesOutput(a)) }

func responsesBody(a answer, status string, output []any) object {
	body := object{
		"id": a.id("resp"), "object": "response", "created_at": created, "status": status, "model": a.model, "output": output,
		"error": nil, "incomplete_details": nil, "instructions": nil, "metadata": object{}, "parallel_tool_calls": true,
		"previous_response_id": nil, "store": false, "temperature": 1, "text": object{"format": object{"type": "text"}},
		"tool_choice": "auto", "tools": []any{}, "top_p": 1, "truncation": "disabled", "usage": nil,
	}
	if status == "completed" {
		body["usage"] = object{
			"input_tokens": a.usage.Input, "input_tokens_details": object{"cached_tokens": a.usage.Cached},
			"output_tokens": a.usage.Output, "output_tokens_details": object{"reasoning_tokens": 0},
			"total_tokens": a.usage.Input + a.usage.Output,
		}
	}
	return body
}

func responsesOutput(a answer) []any {
	output := []any{}
	if a.says() {
		output = append(output, responsesMessage(a, "completed", []any{responsesText(a.text)}))
	}
	for i, u := range a.uses {
		output = append(output, responsesCall(a, i, "completed", string(u.arguments)))
	}
	return output
}

// says reports whether an answer has text: it does where it has nothing else.
func (a answer) says() bool { return a.text != "" || len(a.uses) == 0 }

func responsesMessage(a answer, status string, content []any) object {
	return object{"id": a.id("msg"), "type": "message", "status": status, "role": "assistant", "content": content}
}

func responsesText(text string) object {
	return object{"type": "output_text", "annotations": []any{}, "logprobs": []any{}, "text": text}
}

func responsesCall(a answer, i int, status, arguments string) object {
	tool := a.uses[i].tool
	call := object{
		"id": a.idOf("fc", i), "type": "function_call", "status": status,
		"call_id": a.idOf("call", i), "name": tool.name, "arguments": arguments,
	}
	if tool.namespace != "" {
		call["namespace"] = tool.namespace
	}
	return call
}

func (responses) events(a answer, _ *request) []event {
	s := responsesStream{answer: a}
	s.add("response.created", object{"response": responsesBody(a, "in_progress", []any{})})
	s.add("response.in_progress", object{"response": responsesBody(a, "in_progress", []any{})})
	if a.says() {
		s.message()
	}
	for i := range a.uses {
		s.call(i)
	}
	s.add("response.completed", object{"response": responses{}.whole(a)})
	return s.all
}

// responsesStream gathers events, which are numbered.
type responsesStream struct {
	answer answer
	output int // items so far
	all    []event
}

func (s *responsesStream) add(kind string, fields object) {
	fields["type"], fields["sequence_number"] = kind, len(s.all)
	s.all = append(s.all, event{kind, fields})
}

func (s *responsesStream) message() {
	id, text := s.answer.id("msg"), s.answer.text
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
	id, arguments := s.answer.idOf("fc", i), s.answer.uses[i].arguments
	s.add("response.output_item.added", object{"output_index": s.output, "item": responsesCall(s.answer, i, "in_progress", "")})
	for _, piece := range pieces(arguments) {
		s.add("response.function_call_arguments.delta", object{"item_id": id, "output_index": s.output, "delta": piece})
	}
	s.add("response.function_call_arguments.done", object{"item_id": id, "output_index": s.output, "arguments": string(arguments)})
	s.add("response.output_item.done", object{"output_index": s.output, "item": responsesCall(s.answer, i, "completed", string(arguments))})
	s.output++
}
