package mcpconfig

// client is a server as a client's mcp.json describes it.
type client struct {
	Type string `json:"type"`
	URL  string `json:"url"`
}

// Render is the mcp.json of an agent that finds each server of hosts at its host,
// with a port where that is not 80: in alphabetical order, and nothing that is
// secret.
func Render(hosts map[string]string) []byte {
	servers := make(map[string]client, len(hosts))
	for name, host := range hosts {
		servers[name] = client{Type: "http", URL: urlAt(host)}
	}
	return indented(map[string]any{"mcpServers": servers})
}
