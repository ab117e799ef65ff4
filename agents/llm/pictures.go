package llm

import (
	"encoding/base64"
	"slices"
)

// Bounds of the pictures that one result brings.
const (
	maxPictures = 8
	maxPicture  = 5 << 20 // bytes of base64
)

// picture is a picture as a data URL.
type picture string

// picture is that of a block, where models can be shown it.
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

// part is a piece of a message that is not text alone.
type part struct {
	Type  string `json:"type"`
	Text  string `json:"text,omitempty"`
	Image *image `json:"image_url,omitempty"`
}

type image struct {
	URL picture `json:"url"`
}

// show adds pictures that tools gave, in a message of their own: results of tools are
// text alone.
func (m *model) show(pictures []picture) {
	if len(pictures) == 0 || !m.pictures {
		return
	}
	parts := []part{{Type: "text", Text: "The pictures that the tools gave:"}}
	for _, p := range pictures {
		parts = append(parts, part{Type: "image_url", Image: &image{p}})
	}
	m.request.Messages = append(m.request.Messages, message{Role: "user", Content: parts})
}

// hidePictures takes them out again, for a model that sees none. It says whether there
// were any.
func (m *model) hidePictures() bool {
	shown := func(msg message) bool { _, parts := msg.Content.([]part); return parts }
	before := len(m.request.Messages)
	m.request.Messages = slices.DeleteFunc(m.request.Messages, shown)
	if len(m.request.Messages) == before {
		return false
	}
	m.pictures = false
	return true
}
