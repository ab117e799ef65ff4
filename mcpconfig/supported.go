package mcpconfig

import (
	"path"
	"slices"
)

// Supported says what of a valid s is not built yet, as [Errors] of the class
// [ErrNotSupported]: so far servers run in containers, by stdio or
// streamable HTTP, with all of their tools.
func Supported(name string, s Server) error {
	f := &findings{server: name}
	switch {
	case s.URL != "":
		f.later("url", "url (remote servers)")
	case s.Type == "sse":
		f.later("type", "type sse (HTTP+SSE servers)")
	case fetches(s):
		f.later("command", "command "+path.Base(s.Command)+" (it fetches the server while starting; install the server into an image)")
	}
	if s.Tools != nil {
		f.later("tools", "tools (showing the agent some of a server's tools)")
	}
	return f.err()
}

func (f *findings) later(field, what string) { f.add(ErrNotSupported, field, "", "%s", what) }

// fetches reports whether s starts by downloading itself. In an image of its own
// it may be there already.
func fetches(s Server) bool {
	launchers := []string{"npx", "bunx", "pnpx", "uvx", "pipx"}
	return s.Image == "" && slices.Contains(launchers, path.Base(s.Command))
}
