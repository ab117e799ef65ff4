package llm

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/evidence"
)

// head is the beginning of a text, and how much more there was.
func head(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	kept := strings.ToValidUTF8(text[:limit], "")
	return fmt.Sprintf("%s\n[%d more bytes are left out]", kept, len(text)-len(kept))
}

// quote makes a stranger's text fit into a sentence.
func quote(text string) string {
	const limit = 300
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return fmt.Sprintf("%q", text)
}

// encode is a value as JSON; nil for what JSON cannot hold.
func encode(value any) json.RawMessage {
	raw, err := evidence.Marshal(value)
	if err != nil {
		return nil
	}
	return raw
}
