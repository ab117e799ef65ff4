package modelstub

import (
	"encoding/json"

	"github.com/waza-isolate/waza/runner/dialect"
)

type responsesRequest struct {
	Model              string
	Stream             bool
	Instructions       string
	PreviousResponseID string `json:"previous_response_id"`
	MaxOutputTokens    int64  `json:"max_output_tokens"`
	Tools              []responsesTool
	Input              responsesInput
	Text               struct {
		Format struct {
			Type   string
			Schema json.RawMessage
		}
	}
}

type responsesTool struct {
	Type  string
	Name  string
	Tools []responsesTool // of a namespace
}

// responsesInput is a list of items, or the user's words.
type responsesInput []responsesItem

type responsesItem struct {
	Type      string
	ID        string
	Role      string
	Content   content
	CallID    string `json:"call_id"`
	Namespace string
	Name      string
	Arguments string
	Output    content
}

// UnmarshalJSON takes a string or a list.
func (in *responsesInput) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		*in = responsesInput{{Role: "user", Content: content{{Text: text}}}}
		return nil
	}
	var items []responsesItem
	if err := json.Unmarshal(b, &items); err != nil {
		return err
	}
	*in = items
	return nil
}

func (r *request) readResponses(body []byte) error {
	var in responsesRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	r.Model, r.Stream, r.maxTokens = in.Model, in.Stream, in.MaxOutputTokens
	r.previous, _ = readMark(in.PreviousResponseID)
	r.format = schemaOf(in.Text.Format.Type, in.Text.Format.Schema)
	r.instruct(in.Instructions)
	for _, t := range in.Tools {
		if t.Type != "namespace" {
			r.offerFunction(t, "")
			continue
		}
		for _, inner := range t.Tools {
			r.offerFunction(inner, t.Name)
		}
	}
	for _, item := range in.Input {
		r.addResponses(item)
	}
	return nil
}

func (r *request) offerFunction(t responsesTool, namespace string) {
	if t.Type == "function" {
		r.offer(t.Name, namespace)
	}
}

func (r *request) addResponses(in responsesItem) {
	switch in.Type {
	case "function_call":
		use := dialect.Use{ID: in.CallID, Name: in.Namespace + in.Name, Arguments: arguments(in.Arguments)}
		r.add(dialect.Item{Role: dialect.Assistant, Uses: []dialect.Use{use}})
	case "function_call_output":
		r.add(dialect.Item{Role: dialect.User, Results: []dialect.Result{{ID: in.CallID, Text: in.Output.text()}}})
	case "item_reference":
		r.add(dialect.Item{Role: dialect.Assistant, Uses: []dialect.Use{{ID: in.ID}}})
	case "message", "":
		switch in.Role {
		case "system", "developer":
			r.instruct(in.Content.text())
		case "assistant":
			r.add(dialect.Item{Role: dialect.Assistant, Text: in.Content.text()})
		default:
			r.add(dialect.Item{Role: dialect.User, Text: in.Content.text()})
		}
	}
}
