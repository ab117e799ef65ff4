package script

import (
	"encoding/json"
	"strings"

	"github.com/waza-isolate/waza/agents/internal/session"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsonvalue"
)

// answer is how a call ended, as steps see it.
type answer struct{ session.Answer }

// result is the MCP result, decoded; nil without one that counts.
func (a answer) result() map[string]any {
	if a.Message != "" || a.Result == nil {
		return nil
	}
	decoded, err := jsonvalue.Parse(a.Result)
	result, ok := decoded.(map[string]any)
	if err != nil || !ok {
		return nil
	}
	return result
}

// text is the result's text content, or the error's message.
func (a answer) text() string {
	result := a.result()
	if result == nil {
		return a.Message
	}
	return textOf(result)
}

func textOf(result map[string]any) string {
	var texts []string
	content, _ := result["content"].([]any)
	for _, item := range content {
		fields, _ := item.(map[string]any)
		if s, ok := fields["text"].(string); ok && fields["type"] == "text" {
			texts = append(texts, s)
		}
	}
	return strings.Join(texts, "\n")
}

// value is what `as` names.
func (a answer) value() map[string]any {
	value := map[string]any{
		"outcome":  string(a.Outcome),
		"is_error": a.Outcome != evidence.OutcomeOK,
		"text":     a.Message,
	}
	if a.Outcome == evidence.OutcomeProtocolError {
		value["code"] = number(a.Code)
	}
	result := a.result()
	if result == nil {
		return value
	}
	value["text"] = textOf(result)
	value["result"] = result
	if structured, ok := result["structuredContent"]; ok {
		value["structured"] = structured
	}
	return withJSON(value, textOf(result))
}

// report is what the transcript keeps as the call's result.
func (a answer) report() json.RawMessage {
	if a.Result != nil {
		return a.Result
	}
	raw, err := evidence.Marshal(map[string]any{"error": a.Message})
	if err != nil {
		return nil
	}
	return raw
}
