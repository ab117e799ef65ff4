package spec

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/waza-isolate/waza/mcpconfig"
)

// ContainerFields names the fields of a server that make its container what it
// is, and that a process of this machine runs without.
func ContainerFields(s mcpconfig.Server) []string {
	var names []string
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"image", s.Image != ""}, {"cpus", s.CPUs != 0}, {"memory", s.Memory != ""},
		{"pids", s.Pids != 0}, {"disk", s.Disk != ""},
	} {
		if field.set {
			names = append(names, field.name)
		}
	}
	return names
}

// checkLocal refuses what a server cannot be without in a container: limits that
// are not enforced leave the server as it is, but one without its image or its
// files is another.
func (s servers) checkLocal(name string, server mcpconfig.Server) {
	if server.URL == "" && server.Command == "" {
		s.doc.Problemf(s.path(name), "server %q has only an image: it needs --isolate, or a command to run on this machine", name)
	}
	if server.Files != nil {
		s.doc.Problemf(s.path(name, "files"), "server %q has files, which are put into its container: it needs --isolate", name)
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
