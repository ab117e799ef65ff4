package llm

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
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
func quote(said string) string { return text.Quote(said, 300) }

// encode is a value as JSON; nil for what JSON cannot hold.
func encode(value any) json.RawMessage {
	raw, err := evidence.Marshal(value)
	if err != nil {
		return nil
	}
	return raw
}
