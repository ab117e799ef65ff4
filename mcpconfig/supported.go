package mcpconfig

import (
	"path"
	"slices"
)

// Supported says what of a valid s is not built yet, as [Errors] of the class
// [ErrNotSupported].
func Supported(name string, s Server) error {
	f := &findings{server: name}
	if fetches(s) {
		f.later("command", "command "+path.Base(s.Command)+" (it fetches the server while starting; install the server into an image)")
	}
	return f.err()
}

func (f *findings) later(field, what string) { f.add(ErrNotSupported, field, "", "%s", what) }

// fetches reports whether s starts by downloading itself. In an image of its own
// it may be there already.
func fetches(s Server) bool {
	launchers := []string{"npx", "bunx", "pnpx", "uvx", "pipx", "docker", "podman"}
	return s.Image == "" && slices.Contains(launchers, path.Base(s.Command))
}
