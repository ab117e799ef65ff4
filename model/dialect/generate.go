package dialect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
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

type googleConfig struct {
	MaxOutputTokens    int64           `json:"maxOutputTokens"`
	ResponseMIMEType   string          `json:"responseMimeType"`
	ResponseSchema     json.RawMessage `json:"responseSchema"`
	ResponseJSONSchema json.RawMessage `json:"responseJsonSchema"`
}

// format returns the schema of a JSON response, or nil for text.
func (c googleConfig) format() json.RawMessage {
	switch {
	case c.ResponseMIMEType != "application/json":
		return nil
	case len(c.ResponseJSONSchema) > 0:
		return c.ResponseJSONSchema
	case len(c.ResponseSchema) > 0:
		return c.ResponseSchema
	}
	return anyObject
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
		GenerationConfig googleConfig `json:"generationConfig"`
	}
	if err := decode(body, &asked); err != nil {
		return Request{}, err
	}
	request := Request{
		Model:  modelIn(path),
		Stream: strings.HasSuffix(withoutQuery(path), streamGenerate),
		System: asked.SystemInstruction.item().Text,
		Format: asked.GenerationConfig.format(), MaxTokens: asked.GenerationConfig.MaxOutputTokens,
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
			request.Tools = append(request.Tools, Tool{Name: ToolName{Local: f.Name}, Description: f.Description, Schema: schema})
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

// answered returns the text of a function's result: the value of the usual keys, or all of it as
// JSON.
func answered(response map[string]json.RawMessage) string {
	for _, key := range []string{"output", "error", "result", "content"} {
		var reported content
		reported.read(response[key])
		if text := reported.said(); text != "" {
			return text
		}
	}
	whole, err := json.Marshal(response)
	if err != nil || len(response) == 0 {
		return ""
	}
	return string(whole)
}

// generateDelta reads one object of a stream or a whole answer, which have the same form.
func generateDelta(event []byte) (delta, error) {
	var reported struct {
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
	if err := decode(event, &reported); err != nil {
		return delta{}, err
	}
	d := delta{
		id: reported.ResponseID, model: reported.ModelVersion,
		stop: reported.PromptFeedback.BlockReason, err: reported.Error.Message,
	}
	if u := reported.Usage; u != nil {
		d.usage = counted(Usage{
			Input:     sum(max(u.Prompt, 0), max(u.ToolPrompt, 0)),
			Output:    sum(max(u.Candidates, 0), max(u.Thoughts, 0)),
			Cached:    u.Cached,
			Reasoning: u.Thoughts,
		})
	}
	for _, candidate := range reported.Candidates {
		d.stop = cmp.Or(candidate.FinishReason, d.stop)
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

// generateWhole writes an answer that is not streamed.
func generateWhole(a Answer) any {
	parts := []any{}
	if a.hasText() {
		parts = append(parts, object{"text": a.Text})
	}
	return generateBody(a, append(parts, generateUses(a)...), "STOP", a.Usage.Output)
}

func generateUses(a Answer) []any {
	var parts []any
	for i, u := range a.Uses {
		parts = append(parts, object{"functionCall": object{
			"id": a.ID("call", i+1), "name": u.Tool.String(), "args": u.Arguments,
		}})
	}
	return parts
}

func generateBody(a Answer, parts []any, stop string, output int64) object {
	candidate := object{"index": 0, "content": object{"role": "model", "parts": parts}}
	if stop != "" {
		candidate["finishReason"] = stop
	}
	usage := object{"promptTokenCount": a.Usage.Input, "candidatesTokenCount": output, "totalTokenCount": a.Usage.Input + output}
	if a.Usage.Cached > 0 {
		usage["cachedContentTokenCount"] = a.Usage.Cached
	}
	return object{
		"candidates": []any{candidate}, "usageMetadata": usage,
		"modelVersion": a.Model, "responseId": a.ID("r", 0),
	}
}

// generateEvents writes an answer as a stream: the text in words, and then all tool uses in one
// event.
func generateEvents(a Answer) []Event {
	var all []Event
	for _, word := range words(a.Text) {
		all = append(all, Event{Data: generateBody(a, []any{object{"text": word}}, "", 0)})
	}
	last := generateUses(a)
	if len(last) == 0 {
		last = []any{object{"text": ""}}
	}
	return append(all, Event{Data: generateBody(a, last, "STOP", a.Usage.Output)})
}

// generateFailure writes an error.
func generateFailure(f Failure) any {
	word := map[int]string{
		400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
		429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
	}[f.Status]
	body := object{"code": f.Status, "message": f.Message, "status": cmp.Or(f.GoogleStatus, word, "UNKNOWN")}
	switch {
	case f.RetryAfter != nil:
		body["details"] = []any{object{
			"@type":      "type.googleapis.com/google.rpc.RetryInfo",
			"retryDelay": fmt.Sprintf("%ss", strconv.FormatFloat(*f.RetryAfter, 'f', -1, 64)),
		}}
	case f.Quota: // longer than a client would wait
		body["details"] = []any{object{
			"@type":      "type.googleapis.com/google.rpc.QuotaFailure",
			"violations": []any{object{"quotaId": "TrialPerDay", "description": f.Message}},
		}}
	}
	return object{"error": body}
}

func generateModel(model string) object {
	return object{
		"name": "models/" + model, "displayName": model, "version": "001",
		"inputTokenLimit": tokenLimit, "outputTokenLimit": tokenLimit,
		"supportedGenerationMethods": []string{"generateContent", "streamGenerateContent", "countTokens"},
	}
}

func generateModels(models []any, _ []string) any { return object{"models": models} }
