package dialect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// MaxBody bounds a request or a response that is read, in bytes.
const MaxBody = 64 << 20

// Further limits of the input.
const (
	maxEvent     = 16 << 20 // bytes of one event of a stream
	maxItems     = 1 << 16  // items of a conversation
	maxTools     = 1 << 12  // tools that a model may use
	maxErrorText = 500      // bytes of an error that is not JSON
	maxPieces    = 1 << 10  // texts and uses of one answer
)

// ErrTooLarge is returned for a body that exceeds the limits.
var ErrTooLarge = errors.New("too large to be read")

// ReadRequest decodes an agent's request. In Google's API the path names the model.
func ReadRequest(name Name, path string, body []byte) (Request, error) {
	if len(body) > MaxBody {
		return Request{}, fmt.Errorf("a request of %d bytes: %w", len(body), ErrTooLarge)
	}
	if HasTooMany(body) {
		return Request{}, fmt.Errorf("a request of %s with more than %d values: %w", name, maxValues, ErrTooLarge)
	}
	read := apiOf(name).request
	if read == nil {
		return Request{}, fmt.Errorf("%q is no shape of requests", name)
	}
	request, err := read(path, body)
	if err != nil {
		return Request{}, fmt.Errorf("a request of %s: %w", name, err)
	}
	if len(request.Items) > maxItems || len(request.Tools) > maxTools {
		return Request{}, fmt.Errorf("a request of %s with %d items and %d tools: %w",
			name, len(request.Items), len(request.Tools), ErrTooLarge)
	}
	if name != Generate {
		request.Model = cmp.Or(deploymentIn(path), oneModel(body))
	}
	return request, nil
}

// oneModel returns the model that a request names. It returns "" for duplicate keys, because
// parsers differ in which one they use.
func oneModel(body []byte) string {
	var all []string
	for key, value := range jsontext.Members(body) {
		if strings.EqualFold(key, "model") {
			all = append(all, jsontext.Word(value))
		}
	}
	if len(all) != 1 {
		return ""
	}
	return all[0]
}

// deploymentIn returns the deployment in an Azure path, which names the model.
func deploymentIn(path string) string {
	_, behind, _ := strings.Cut(withoutQuery(path), "/deployments/")
	name, _, _ := strings.Cut(behind, "/")
	return name
}

// ReadResponse decodes a complete response, streamed or not. Of a response that was cut off it
// returns the part that arrived, and fails only if that is empty. It ignores parts that exceed the
// limits, and then returns [ErrTooLarge] with the rest. If the status is an error, the provider's
// message is in Error.
func ReadResponse(name Name, status int, contentType string, body []byte) (Response, error) {
	if len(body) > MaxBody {
		return Response{}, fmt.Errorf("a response of %d bytes: %w", len(body), ErrTooLarge)
	}
	read := apiOf(name).delta
	if read == nil {
		return Response{}, fmt.Errorf("%q is no shape of responses", name)
	}
	var answer assembly
	understood := false
	take := func(event []byte) {
		if HasTooMany(event) {
			answer.left = true
			return
		}
		if d, err := read(event); err == nil {
			understood = true
			answer.add(d)
		}
	}
	split := splitterFor(contentType, body)
	split.feed(body, take)
	split.end(take)
	response := answer.response()
	if status >= 400 && response.Error == "" {
		response.Error = plainError(status, body)
		return response, nil
	}
	if split.left || answer.left {
		return response, fmt.Errorf("a response of %s: %w", name, ErrTooLarge)
	}
	if !understood {
		return Response{}, fmt.Errorf("a response of %s: nothing of it can be read", name)
	}
	return response, nil
}

// anyObject is the schema of a JSON response without a schema.
var anyObject = json.RawMessage(`{"type":"object"}`)

// schemaFormat is the format of an answer as OpenAI's and Anthropic's APIs ask for it.
type schemaFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

// schemaOf returns the schema of the first JSON format, or nil for text.
func schemaOf(formats ...schemaFormat) json.RawMessage {
	for _, format := range formats {
		switch {
		case format.Type == "json_schema" && len(format.Schema) > 0:
			return format.Schema
		case format.Type == "json_schema" || format.Type == "json_object":
			return anyObject
		}
	}
	return nil
}

// plainError returns the message of an error in an unknown format.
func plainError(status int, body []byte) string {
	if len(body) > maxErrorText {
		body = body[:maxErrorText]
	}
	text := strings.TrimSpace(strings.ToValidUTF8(string(body), "�"))
	return strings.TrimSpace(fmt.Sprintf("status %d %s", status, text))
}

// arguments returns the arguments of a tool use as a JSON value, given their text.
func arguments(text string) json.RawMessage {
	if strings.TrimSpace(text) == "" {
		return json.RawMessage("{}")
	}
	if jsontext.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	quoted, _ := json.Marshal(text) // a string always marshals
	return quoted
}

// content is a list of blocks, some of which are text. A string is one block.
type content []block

func (c *content) UnmarshalJSON(raw []byte) error {
	c.read(raw)
	return nil
}

// read ignores values of other types.
func (c *content) read(raw json.RawMessage) {
	*c = nil
	var alone block
	if jsontext.Unmarshal(raw, &alone.Text) == nil {
		*c = content{{Type: "text", Text: alone.Text}}
	} else if decode(raw, (*[]block)(c)) != nil && decode(raw, &alone) == nil {
		*c = content{alone}
	}
}

// said returns the text, with line breaks between blocks.
func (c content) said() string {
	var texts []string
	for _, b := range c {
		if text := b.said(); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}

// block is one part of a content, of chat completions, responses or messages.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Refusal   string          `json:"refusal"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
}

func (b block) said() string {
	switch b.Type {
	case "text", "input_text", "output_text":
		return b.Text
	case "refusal":
		return b.Refusal
	}
	return ""
}

// problem is a provider's error: an object with a message, or a text.
type problem struct {
	Message string
	spent   bool // a quota is used up, so that a retry is useless
}

func (p *problem) UnmarshalJSON(raw []byte) error {
	if jsontext.Unmarshal(raw, &p.Message) == nil {
		return nil
	}
	var reported struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Code    any    `json:"code"`
	}
	if decode(raw, &reported) == nil {
		const quota = "insufficient_quota"
		p.Message, p.spent = cmp.Or(reported.Message, reported.Type), reported.Type == quota || reported.Code == quota
	}
	return nil
}

// ErrorIn returns the message of an error response to a chat completion, or the whole response if
// it has none, and whether a quota is used up, so that a retry is useless.
func ErrorIn(response []byte) (message string, spent bool) {
	var body struct {
		Error problem `json:"error"`
	}
	if decode(response, &body) != nil || body.Error.Message == "" {
		return string(response), false
	}
	return body.Error.Message, body.Error.spent
}

// decode decodes JSON, and skips values of the wrong type.
func decode(raw []byte, into any) error {
	err := jsontext.Unmarshal(raw, into)
	var other *jsontext.TypeError
	if errors.As(err, &other) && other.Field != "" {
		return nil
	}
	return err
}

// maxValues is the maximum number of values of a JSON text to be decoded. A value of two bytes
// takes a hundred bytes of memory.
const maxValues = 1 << 19

// HasTooMany reports whether a JSON text has too many values to be decoded.
func HasTooMany(text []byte) bool { return jsontext.MoreThan(maxValues, text) }
