// Command greeter is an MCP server with one tool.
package main

import (
	"encoding/json"
	"os"
)

var answers = map[string]json.RawMessage{
	"initialize": json.RawMessage(`{"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "greeter", "version": "1"}}`),
	"tools/list": json.RawMessage(`{"tools": [{"name": "greet", "inputSchema": {"type": "object"}}]}`),
	"tools/call": json.RawMessage(`{"content": [{"type": "text", "text": "hello from Go"}]}`),
}

func main() {
	for in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout); ; {
		var request struct {
			ID     json.RawMessage
			Method string
		}
		if in.Decode(&request) != nil {
			return
		}
		if answer := answers[request.Method]; answer != nil {
			_ = out.Encode(map[string]any{"jsonrpc": "2.0", "id": request.ID, "result": answer})
		}
	}
}
