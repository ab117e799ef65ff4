package mcpconfig

import (
	"path"
	"slices"
)

// Supported says what of a valid s is not built yet, as [Errors] of the class
// [ErrNotSupported]: so far only stdio servers run, with all of their tools.
func Supported(name string, s Server) error {
	f := &findings{server: name}
	for _, field := range []struct {
		name, what string
		set        bool
	}{
		{"url", "url (remote servers)", s.URL != ""},
		{"headers", "headers (remote servers)", s.Headers != nil},
		{"type", "type " + s.Type, s.Type == "http" || s.Type == "sse"},
		{"port", "port (HTTP servers)", s.Port != 0},
		{"path", "path (HTTP servers)", s.Path != ""},
		{"tools", "tools (showing the agent some of a server's tools)", s.Tools != nil},
		{"command", "command " + path.Base(s.Command) + " (it fetches the server while starting; install the server into an image)", fetches(s)},
	} {
		if field.set {
			f.add(ErrNotSupported, field.name, "", "%s", field.what)
		}
	}
	return f.err()
}

// fetches reports whether s starts by downloading itself. In an image of its own
// it may be there already.
func fetches(s Server) bool {
	launchers := []string{"npx", "bunx", "pnpx", "uvx", "pipx", "docker", "podman"}
	return s.Image == "" && slices.Contains(launchers, path.Base(s.Command))
}
