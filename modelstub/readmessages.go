package modelstub

import (
	"encoding/json"

	"github.com/waza-isolate/waza/runner/dialect"
)

type messagesRequest struct {
	Model     string
	Stream    bool
	MaxTokens int64 `json:"max_tokens"`
	System    content
	Tools     []struct{ Name string }
	Messages  []struct {
		Role    string
		Content blocks
	}
	OutputFormat messagesFormat                  `json:"output_format"`
	OutputConfig struct{ Format messagesFormat } `json:"output_config"`
}

type messagesFormat struct {
	Type   string
	Schema json.RawMessage
}

// blocks are the blocks of a message, or its text.
type blocks []block

type block struct {
	Type      string
	Text      string
	ID        string
	Name      string
	Input     json.RawMessage
	ToolUseID string `json:"tool_use_id"`
	IsError   bool   `json:"is_error"`
	Content   content
}

// UnmarshalJSON takes a string or a list of blocks.
func (b *blocks) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*b = blocks{{Type: "text", Text: text}}
		return nil
	}
	var all []block
	if err := json.Unmarshal(raw, &all); err != nil {
		return err
	}
	*b = all
	return nil
}

func (r *request) readMessages(body []byte) error {
	var in messagesRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	r.Model, r.Stream, r.maxTokens = in.Model, in.Stream, in.MaxTokens
	for _, format := range []messagesFormat{in.OutputFormat, in.OutputConfig.Format} {
		if format.Type == "json_schema" {
			r.format = schemaOf(format.Type, format.Schema)
		}
	}
	r.instruct(in.System.text())
	for _, t := range in.Tools {
		r.offer(t.Name, "")
	}
	for _, m := range in.Messages {
		item := dialect.Item{Role: dialect.User}
		if m.Role == "assistant" {
			item.Role = dialect.Assistant
		}
		for _, b := range m.Content {
			switch b.Type {
			case "text":
				item.Text = joined(item.Text, b.Text)
			case "tool_use":
				item.Uses = append(item.Uses, dialect.Use{ID: b.ID, Name: b.Name, Arguments: b.Input})
			case "tool_result":
				item.Results = append(item.Results, dialect.Result{ID: b.ToolUseID, Text: b.Content.text(), Error: b.IsError})
			}
		}
		r.add(item)
	}
	return nil
}
