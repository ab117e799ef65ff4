package stub

import (
	"encoding/json"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/model/dialect"
)

// asked is what of a request's body no shape of dialect.Request keeps. The shapes have
// no key in common that means two things.
type asked struct {
	MaxTokens           int64 `json:"max_tokens"`
	MaxCompletionTokens int64 `json:"max_completion_tokens"`
	MaxOutputTokens     int64 `json:"max_output_tokens"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`

	PreviousResponseID string          `json:"previous_response_id"`
	Input              json.RawMessage `json:"input"`
	Tools              []responsesTool `json:"tools"`
	Text               struct {
		Format schemaFormat `json:"format"`
	} `json:"text"`

	ResponseFormat struct {
		Type       string       `json:"type"`
		JSONSchema schemaFormat `json:"json_schema"`
	} `json:"response_format"`

	OutputFormat schemaFormat `json:"output_format"`
	OutputConfig struct {
		Format schemaFormat `json:"format"`
	} `json:"output_config"`

	GenerationConfig struct {
		MaxOutputTokens    int64           `json:"maxOutputTokens"`
		ResponseMIMEType   string          `json:"responseMimeType"`
		ResponseSchema     json.RawMessage `json:"responseSchema"`
		ResponseJSONSchema json.RawMessage `json:"responseJsonSchema"`
	} `json:"generationConfig"`
}

type schemaFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

// responsesTool is a tool of responses, or a namespace of some.
type responsesTool struct {
	Type  string          `json:"type"`
	Name  string          `json:"name"`
	Tools []responsesTool `json:"tools"`
}

// demandsOf takes what it can read: body is JSON already.
func demandsOf(name dialect.Name, body []byte) demands {
	var a asked
	_ = jsontext.Unmarshal(body, &a) // what is of another type than it should be is left out
	d := demands{
		format:    a.schema(),
		maxTokens: max(a.MaxTokens, a.MaxCompletionTokens, a.MaxOutputTokens, a.GenerationConfig.MaxOutputTokens),
		usage:     a.StreamOptions.IncludeUsage,
	}
	if name == dialect.Responses {
		d.given = a.Tools
		d.previous, _ = readMark(a.PreviousResponseID)
		d.referenced = references(a.Input)
	}
	return d
}

// anyObject is the schema of an answer that is to be JSON, of whatever kind.
var anyObject = json.RawMessage(`{"type":"object"}`)

// schema is what the answer is to be, where it is to be JSON.
func (a asked) schema() json.RawMessage {
	chat := a.ResponseFormat
	for _, format := range []schemaFormat{a.Text.Format, a.OutputFormat, a.OutputConfig.Format, {chat.Type, chat.JSONSchema.Schema}} {
		switch {
		case format.Type == "json_schema" && len(format.Schema) > 0:
			return format.Schema
		case format.Type == "json_schema" || format.Type == "json_object":
			return anyObject
		}
	}
	google := a.GenerationConfig
	switch {
	case google.ResponseMIMEType != "application/json":
		return nil
	case len(google.ResponseJSONSchema) > 0:
		return google.ResponseJSONSchema
	case len(google.ResponseSchema) > 0:
		return google.ResponseSchema
	default:
		return anyObject
	}
}

// references are the marks of items that input names and does not hold.
func references(input json.RawMessage) []mark {
	var items []struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	}
	_ = jsontext.Unmarshal(input, &items) // a text has none
	var all []mark
	for _, item := range items {
		if m, ok := readMark(item.ID); ok && item.Type == "item_reference" {
			all = append(all, m)
		}
	}
	return all
}

// responsesTools are the functions among the tools given.
func (d demands) responsesTools() []offered {
	var all []offered
	for _, t := range d.given {
		switch t.Type {
		case "function":
			all = append(all, offered{name: t.Name})
		case "namespace":
			for _, inner := range t.Tools {
				if inner.Type == "function" {
					all = append(all, offered{inner.Name, t.Name})
				}
			}
		}
	}
	return all
}
