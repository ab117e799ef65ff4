package dialect

import (
	"encoding/json"
	"strings"
)

type googleContent struct {
	Role  string       `json:"role"`
	Parts []googlePart `json:"parts"`
}

type googlePart struct {
	Text         string `json:"text"`
	Thought      bool   `json:"thought"`
	FunctionCall *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	FunctionResponse *struct {
		ID       string                     `json:"id"`
		Name     string                     `json:"name"`
		Response map[string]json.RawMessage `json:"response"`
	} `json:"functionResponse"`
}

func generateRequest(path string, body []byte) (Request, error) {
	var asked struct {
		Contents          []googleContent `json:"contents"`
		SystemInstruction googleContent   `json:"systemInstruction"`
		Tools             []struct {
			FunctionDeclarations []struct {
				Name        string          `json:"name"`
				Description string          `json:"description"`
				Parameters  json.RawMessage `json:"parameters"`
				JSONSchema  json.RawMessage `json:"parametersJsonSchema"`
			} `json:"functionDeclarations"`
		} `json:"tools"`
	}
	if err := decode(body, &asked); err != nil {
		return Request{}, err
	}
	request := Request{
		Model:  modelIn(path),
		Stream: strings.HasSuffix(withoutQuery(path), streamGenerate),
		System: asked.SystemInstruction.item().Text,
	}
	for _, given := range asked.Contents {
		request.Items = append(request.Items, given.item())
	}
	for _, tool := range asked.Tools {
		for _, f := range tool.FunctionDeclarations {
			schema := f.Parameters
			if schema == nil {
				schema = f.JSONSchema
			}
			request.Tools = append(request.Tools, Tool{Name: f.Name, Description: f.Description, Schema: schema})
		}
	}
	return request, nil
}

func (c googleContent) item() Item {
	item := Item{Role: User}
	if c.Role == "model" {
		item.Role = Assistant
	}
	var texts []string
	for _, part := range c.Parts {
		if part.Text != "" && !part.Thought {
			texts = append(texts, part.Text)
		}
		if call := part.FunctionCall; call != nil {
			item.Uses = append(item.Uses, Use{ID: call.ID, Name: call.Name, Arguments: arguments(string(call.Args))})
		}
		if r := part.FunctionResponse; r != nil {
			_, failed := r.Response["error"]
			item.Results = append(item.Results, Result{ID: r.ID, Name: r.Name, Text: answered(r.Response), Error: failed})
		}
	}
	item.Text = strings.Join(texts, "\n")
	return item
}

// answered is the text of a function's answer: where it usually is, or else all of it
// as JSON.
func answered(response map[string]json.RawMessage) string {
	for _, key := range []string{"output", "error", "result", "content"} {
		var told content
		told.read(response[key])
		if text := told.said(); text != "" {
			return text
		}
	}
	whole, err := json.Marshal(response)
	if err != nil || len(response) == 0 {
		return ""
	}
	return string(whole)
}

// generateDelta reads one object of a stream, or a whole answer: they have one shape.
func generateDelta(event []byte) (delta, error) {
	var told struct {
		ResponseID   string `json:"responseId"`
		ModelVersion string `json:"modelVersion"`
		Candidates   []struct {
			Index        int           `json:"index"`
			Content      googleContent `json:"content"`
			FinishReason string        `json:"finishReason"`
		} `json:"candidates"`
		PromptFeedback struct {
			BlockReason string `json:"blockReason"`
		} `json:"promptFeedback"`
		Usage *struct {
			Prompt     int64 `json:"promptTokenCount"`
			ToolPrompt int64 `json:"toolUsePromptTokenCount"`
			Candidates int64 `json:"candidatesTokenCount"`
			Thoughts   int64 `json:"thoughtsTokenCount"`
			Cached     int64 `json:"cachedContentTokenCount"`
		} `json:"usageMetadata"`
		Error problem `json:"error"`
	}
	if err := decode(event, &told); err != nil {
		return delta{}, err
	}
	d := delta{
		id: told.ResponseID, model: told.ModelVersion,
		stop: told.PromptFeedback.BlockReason, err: told.Error.Message,
	}
	if u := told.Usage; u != nil {
		d.usage = counted(Usage{
			Input:     sum(atLeast0(u.Prompt), atLeast0(u.ToolPrompt)),
			Output:    sum(atLeast0(u.Candidates), atLeast0(u.Thoughts)),
			Cached:    u.Cached,
			Reasoning: u.Thoughts,
		})
	}
	for _, candidate := range told.Candidates {
		if candidate.FinishReason != "" {
			d.stop = candidate.FinishReason
		}
		for _, part := range candidate.Content.Parts {
			d.takeGoogle(candidate.Index, part)
		}
	}
	return d, nil
}

func (d *delta) takeGoogle(candidate int, part googlePart) {
	switch {
	case part.FunctionCall != nil:
		call := part.FunctionCall
		d.pieces = append(d.pieces, piece{
			alone: true, use: true, id: call.ID, name: call.Name, text: string(call.Args),
		})
	case part.Thought:
		d.thinks = d.thinks || part.Text != ""
	case part.Text != "":
		d.pieces = append(d.pieces, piece{slot: slot{part: candidate}, text: part.Text})
	}
}
