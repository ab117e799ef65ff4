package modelstub

import (
	"encoding/json"

	"github.com/waza-isolate/waza/runner/dialect"
)

type generateRequest struct {
	SystemInstruction generateContent
	Contents          []generateContent
	Tools             []struct {
		FunctionDeclarations []struct{ Name string }
	}
	GenerationConfig struct {
		MaxOutputTokens    int64
		ResponseMIMEType   string `json:"responseMimeType"`
		ResponseSchema     json.RawMessage
		ResponseJSONSchema json.RawMessage `json:"responseJsonSchema"`
	}
}

type generateContent struct {
	Role  string
	Parts []generatePart
}

type generatePart struct {
	Text         string
	Thought      bool
	FunctionCall *struct {
		ID, Name string
		Args     json.RawMessage
	}
	FunctionResponse *struct {
		ID, Name string
		Response json.RawMessage
	}
}

// readGenerate reads all but what the path says: model and stream.
func (r *request) readGenerate(body []byte) error {
	var in generateRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	config := in.GenerationConfig
	r.maxTokens = config.MaxOutputTokens
	if config.ResponseMIMEType == "application/json" {
		r.format = anyJSON
		for _, schema := range []json.RawMessage{config.ResponseSchema, config.ResponseJSONSchema} {
			if len(schema) > 0 {
				r.format = schema
			}
		}
	}
	for _, p := range in.SystemInstruction.Parts {
		r.instruct(p.Text)
	}
	for _, t := range in.Tools {
		for _, f := range t.FunctionDeclarations {
			r.offer(f.Name, "")
		}
	}
	for _, c := range in.Contents {
		r.add(c.item())
	}
	return nil
}

func (c generateContent) item() dialect.Item {
	item := dialect.Item{Role: dialect.User}
	if c.Role == "model" {
		item.Role = dialect.Assistant
	}
	for _, p := range c.Parts {
		switch {
		case p.FunctionCall != nil:
			item.Uses = append(item.Uses, dialect.Use{ID: p.FunctionCall.ID, Name: p.FunctionCall.Name, Arguments: p.FunctionCall.Args})
		case p.FunctionResponse != nil:
			item.Results = append(item.Results, dialect.Result{ID: p.FunctionResponse.ID, Name: p.FunctionResponse.Name, Text: string(p.FunctionResponse.Response)})
		case !p.Thought:
			item.Text = joined(item.Text, p.Text)
		}
	}
	return item
}
