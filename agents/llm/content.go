package llm

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/agents/internal/session"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/jsonvalue"
)

// block is a part of an MCP result: the fields of all kinds together.
type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"` // base64, of an image or of sound
	MIMEType string `json:"mimeType"`
	URI      string `json:"uri"` // of a link
	Name     string `json:"name"`
	Resource struct {
		URI      string  `json:"uri"`
		MIMEType string  `json:"mimeType"`
		Text     *string `json:"text"`
		Blob     string  `json:"blob"`
	} `json:"resource"`
}

// mcpResult returns the result of a call for the model: texts as they are, pictures apart, and
// everything else by name. It adds structured content that no text has.
func mcpResult(a session.Answer) result {
	r := result{failed: a.Outcome != evidence.OutcomeOK, raw: a.Result}
	if a.Message != "" {
		r.text = fmt.Sprintf("%s: %s", a.Outcome, a.Message)
		return r
	}
	var got struct {
		Content    []block         `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
	}
	if err := jsontext.Unmarshal(a.Result, &got); err != nil {
		return result{text: "the result cannot be read: " + quote(err.Error()), failed: true, raw: a.Result}
	}
	var texts []string
	for _, b := range got.Content {
		if p, ok := b.picture(); ok && len(r.pictures) < maxPictures {
			r.pictures = append(r.pictures, p)
		}
		texts = append(texts, b.shown())
	}
	if len(got.Structured) > 0 && string(got.Structured) != "null" && !says(got.Content, got.Structured) {
		texts = append(texts, string(got.Structured))
	}
	r.text = strings.Join(texts, "\n")
	return r
}

// says reports whether one of the texts is the value.
func says(blocks []block, value json.RawMessage) bool {
	want, ok := jsonvalue.Canonical(value)
	for _, b := range blocks {
		if got, is := jsonvalue.Canonical([]byte(b.Text)); ok && is && b.Type == "text" && got == want {
			return true
		}
	}
	return false
}

// shown returns a block as text.
func (b block) shown() string {
	switch b.Type {
	case "text":
		return b.Text
	case "image", "audio":
		return fmt.Sprintf("[%s: %s, %d bytes of base64]", b.Type, b.MIMEType, len(b.Data))
	case "resource_link":
		return fmt.Sprintf("[resource %s: %s]", b.Name, b.URI)
	case "resource":
		if b.Resource.Text != nil {
			return fmt.Sprintf("[resource %s]\n%s", b.Resource.URI, *b.Resource.Text)
		}
		return fmt.Sprintf("[resource %s: %s, %d bytes of base64]", b.Resource.URI, b.Resource.MIMEType, len(b.Resource.Blob))
	default:
		return fmt.Sprintf("[a block of type %s, which is not known here]", quote(b.Type))
	}
}

// Bounds of the pictures that one result brings.
const (
	maxPictures = 8
	maxPicture  = 5 << 20 // bytes of base64
)

// picture is a picture as a data URL.
type picture string

// picture returns the picture of a block, if models can take it.
func (b block) picture() (picture, bool) {
	known := slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, b.MIMEType)
	if b.Type != "image" || !known || len(b.Data) > maxPicture {
		return "", false
	}
	if _, err := base64.StdEncoding.DecodeString(b.Data); err != nil {
		return "", false
	}
	return picture("data:" + b.MIMEType + ";base64," + b.Data), true
}

// part is a part of a message that is not only text.
type part struct {
	Type  string `json:"type"`
	Text  string `json:"text,omitempty"`
	Image *image `json:"image_url,omitempty"`
}

type image struct {
	URL picture `json:"url"`
}
