package modelstub

import (
	"encoding/json"

	"github.com/waza-isolate/waza/runner/dialect"
)

type chatRequest struct {
	Model         string
	Stream        bool
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	MaxTokens           int64 `json:"max_tokens"`
	MaxCompletionTokens int64 `json:"max_completion_tokens"`
	Tools               []struct {
		Function struct{ Name string }
	}
	Messages       []chatMessage
	ResponseFormat struct {
		Type       string
		JSONSchema struct{ Schema json.RawMessage } `json:"json_schema"`
	} `json:"response_format"`
}

type chatMessage struct {
	Role       string
	Content    content
	ToolCallID string `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

func (r *request) readChat(body []byte) error {
	var in chatRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	r.Model, r.Stream, r.wantsUsage = in.Model, in.Stream, in.StreamOptions.IncludeUsage
	r.maxTokens = max(in.MaxTokens, in.MaxCompletionTokens)
	r.format = schemaOf(in.ResponseFormat.Type, in.ResponseFormat.JSONSchema.Schema)
	for _, t := range in.Tools {
		r.offer(t.Function.Name, "")
	}
	for _, m := range in.Messages {
		switch m.Role {
		case "system", "developer":
			r.instruct(m.Content.text())
		case "assistant":
			item := dialect.Item{Role: dialect.Assistant, Text: m.Content.text()}
			for _, c := range m.ToolCalls {
				item.Uses = append(item.Uses, dialect.Use{ID: c.ID, Name: c.Function.Name, Arguments: arguments(c.Function.Arguments)})
			}
			r.add(item)
		case "tool":
			r.add(dialect.Item{Role: dialect.User, Results: []dialect.Result{{ID: m.ToolCallID, Text: m.Content.text()}}})
		default:
			r.add(dialect.Item{Role: dialect.User, Text: m.Content.text()})
		}
	}
	return nil
}

// offer notes a tool that the model may call.
func (r *request) offer(name, namespace string) {
	if name != "" {
		r.tools = append(r.tools, offered{name, namespace})
	}
}

// anyJSON is the schema of an answer that is to be JSON, of whatever kind.
var anyJSON = json.RawMessage(`{"type":"object"}`)

// schemaOf is what an OpenAI format asks for: nil for text.
func schemaOf(kind string, schema json.RawMessage) json.RawMessage {
	switch {
	case kind != "json_schema" && kind != "json_object":
		return nil
	case len(schema) == 0:
		return anyJSON
	default:
		return schema
	}
}
