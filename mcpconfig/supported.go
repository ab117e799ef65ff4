package mcpconfig

import "path"

// Supported says what of a valid s is not built yet, as [Errors] of the class
// [ErrNotSupported].
func Supported(name string, s Server) error {
	f := &findings{server: name}
	if instead(s) != "" {
		f.later("command", "command "+path.Base(s.Command)+" ("+instead(s)+")")
	}
	return f.err()
}

func (f *findings) later(field, what string) { f.add(ErrNotSupported, field, "", "%s", what) }

// instead is what to use in place of a command that starts by downloading the
// server and is not one of [ReadPackage]'s. In an image of its own the server may
// be there already.
func instead(s Server) string {
	if s.Image != "" {
		return ""
	}
	switch path.Base(s.Command) {
	case "bunx", "pnpx":
		return "use npx, or install the server into an image"
	case "pipx":
		return "use uvx, or install the server into an image"
	}
	return ""
}
