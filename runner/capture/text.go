package capture

import (
	"encoding/json"
	"strings"
)

// Text joins the text of an MCP tool result's content. Where there is none, or the
// result is not what the protocol says, it is empty.
func Text(result json.RawMessage) string {
	var fields map[string]json.RawMessage
	var blocks []map[string]json.RawMessage
	_ = json.Unmarshal(result, &fields) // a server's mistakes leave no text
	_ = json.Unmarshal(fields["content"], &blocks)
	var texts []string
	for _, block := range blocks {
		var kind, text string
		_ = json.Unmarshal(block["type"], &kind)
		_ = json.Unmarshal(block["text"], &text)
		if kind == "text" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}
