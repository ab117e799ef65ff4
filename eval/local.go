package eval

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcpconfig"
)

// ContainerFields names the fields of a server that only a container has: without
// containers they are refused.
func ContainerFields(s mcpconfig.Server) (names []string) {
	ofContainers := []string{
		"files", "services", "writable", "user", "pull", "platform", "cpus", "memory", "pids", "disk", "scratch", "open_files",
	}
	for _, name := range strictyaml.Given(s) {
		if slices.Contains(ofContainers, name) {
			names = append(names, name)
		}
	}
	return names
}

// checkLocal refuses what only a container has. An image beside a command is the
// other way to run the server, and has no effect.
func (s servers) checkLocal(name string, server mcpconfig.Server) {
	if server.URL == "" && server.Command == "" {
		s.doc.Problemf(s.place(name, "", ""), "server %q has only an image: it needs --isolate, or a command to run on this machine", name)
	}
	for _, field := range ContainerFields(server) {
		s.doc.Problemf(s.place(name, field, ""), "server %q: %s is about its container: it needs --isolate", name, field)
	}
}

// onThisMachine is server as the checks that are meant for containers take it:
// its command needs no image.
func (s servers) onThisMachine(server mcpconfig.Server) mcpconfig.Server {
	if server.Command != "" {
		server.Image = cmp.Or(server.Image, "none")
	}
	return s.eval.Placed(server)
}

// Placed is a server whose working directory is absolute, where e is read to run
// on this machine: there it is relative to the eval's. One that holds a variable
// must become absolute by it.
func (e *Eval) Placed(server mcpconfig.Server) mcpconfig.Server {
	for _, dir := range []*string{&server.Cwd, &server.WorkingDir} {
		if !e.Local || *dir == "" || filepath.IsAbs(*dir) || strings.Contains(*dir, "${") {
			continue
		}
		if abs, err := filepath.Abs(e.Dir()); err == nil {
			*dir = filepath.Join(strings.ReplaceAll(abs, "${", "$${"), *dir)
		}
	}
	return server
}
