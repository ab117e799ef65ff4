package capture

import "encoding/json"

// Text joins the text of an MCP tool result's content. Where there is none, or the
// result is not what the protocol says, it is empty.
func Text(result json.RawMessage) string {
	return readContent(result).text
}

// BlockText is the same of a result's content alone, a list of blocks.
func BlockText(content json.RawMessage) string {
	text, _ := blockText(content)
	return text
}
