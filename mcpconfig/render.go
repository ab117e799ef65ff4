package mcpconfig

import (
	"bytes"
	"encoding/json"
)

// client is a server as a client's mcp.json describes it.
type client struct {
	Type string `json:"type"`
	URL  string `json:"url"`
}

// Render is the mcp.json of an agent that has the servers in names: each under
// its own host name on the task network, in alphabetical order, and nothing that
// is secret.
func Render(names []string) []byte {
	servers := make(map[string]client, len(names))
	for _, name := range names {
		servers[name] = client{Type: "http", URL: "http://" + name + "/mcp"}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	_ = enc.Encode(map[string]any{"mcpServers": servers}) // strings always encode, a Buffer always takes them
	return b.Bytes()
}
