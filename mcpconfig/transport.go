package mcpconfig

import "slices"

// Transports of MCP, as [Server.Transport] tells them apart.
const (
	Stdio = "stdio"
	HTTP  = "http" // streamable HTTP
	SSE   = "sse"  // HTTP with server-sent events, of 2024-11-05
)

// Transport is how s is spoken to: its type, and where that is left out HTTP with
// a url or a port and else stdio.
func (s Server) Transport() string {
	switch {
	case s.Type == localType:
		return Stdio
	case s.Type != "":
		return s.Type
	case s.URL != "" || s.Port != 0:
		return HTTP
	}
	return Stdio
}

// Endpoint is the path of an HTTP server's endpoint in its container: its own, and
// where that is left out the usual one of its transport.
func (s Server) Endpoint() string {
	switch {
	case s.URL != "" || s.Transport() == Stdio:
		return ""
	case s.Path != "":
		return s.Path
	case s.Transport() == SSE:
		return "/sse"
	}
	return "/mcp"
}

// Shown is the tools that the agent sees; nil for all, which "*" means too.
func (s Server) Shown() []string {
	if slices.Contains(s.Tools, "*") {
		return nil
	}
	return s.Tools
}

// localType is what Copilot calls a server on stdio.
const localType = "local"
