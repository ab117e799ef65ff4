package eval

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcpconfig"
)

// servers checks the MCP servers of one file.
type servers struct {
	doc   *strictyaml.Document
	place placer
	eval  *Eval
}

// placer returns the path of a server in a file, of a field of the server, or of a key of that field; field
// and key may be empty.
type placer func(server, field, key string) strictyaml.Path

// under returns a placer for a file that has servers in waza's format below a path.
func under(doc *strictyaml.Document, at ...any) placer {
	return func(server, field, key string) strictyaml.Path {
		path := strictyaml.Path(at).With(server)
		if field != "" {
			for step := range strings.SplitSeq(field, ".") {
				path = append(path, step)
			}
		}
		if key != "" && doc.Has(path.With(key)...) {
			path = append(path, key)
		}
		return path
	}
}

// layServers checks the servers of the eval and the overlay, and merges the overlay.
// Servers that it replaces are not checked, since they never start.
func layServers(doc *strictyaml.Document, e *Eval, o *mcpconfig.ClientFile) {
	own := maps.Clone(e.Config.MCPServers)
	if o != nil {
		maps.DeleteFunc(own, func(name string, _ *mcpconfig.Server) bool { return o.Servers[name] != nil })
		servers{doc: o.Document(), place: o.Place, eval: e}.checkDeclared(o.Servers)
		e.Config.MCPServers = map[string]*mcpconfig.Server{}
		maps.Copy(e.Config.MCPServers, own)
		maps.Copy(e.Config.MCPServers, o.Servers)
	}
	servers{doc: doc, place: under(doc, "config", "mcp_servers"), eval: e}.checkDeclared(own)
}

// checkDeclared checks servers declared by an eval or an overlay.
func (s servers) checkDeclared(declared map[string]*mcpconfig.Server) {
	all, err := mcpconfig.Merge(declared, nil)
	s.report(err)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s.check(name, all[name])
	}
}

// merge merges overlay over the eval's servers and checks the changed ones.
func (s servers) merge(overlay map[string]*mcpconfig.Server) map[string]mcpconfig.Server {
	base := maps.Clone(s.eval.Config.MCPServers)
	maps.DeleteFunc(base, func(_ string, server *mcpconfig.Server) bool { return server == nil }) // reported with the eval
	all, err := mcpconfig.Merge(base, overlay)
	s.report(err)
	for _, name := range slices.Sorted(maps.Keys(overlay)) {
		if overlay[name] != nil {
			s.check(name, all[name])
		}
	}
	return all
}

func (s servers) check(name string, declared mcpconfig.Server) {
	if s.played() {
		return
	}
	isMeant := func(field string) bool { return s.doc.Reported(s.place(name, field, "")...) }
	if declared.URL == "" && declared.Command == "" && declared.Image == "" && declared.Build == nil && slices.ContainsFunc([]string{"url", "command", "image", "build"}, isMeant) {
		return
	}
	_, err := mcpconfig.Variables(name, declared)
	s.report(err)
	var server mcpconfig.Server
	if s.eval.Local {
		s.checkLocal(name, declared)
		server = s.onThisMachine(declared)
	} else if server, err = mcpconfig.FromDockerRun(name, declared); err != nil {
		s.report(err)
		s.report(mcpconfig.Validate(name, declared))
		return
	}
	s.report(mcpconfig.Validate(name, server))
	unsupported := mcpconfig.Supported(name, server)
	if unsupported != nil {
		s.doc.Problemf(s.place(name, "command", ""), "%v", unsupported)
	}
	isPackage := false
	if !s.eval.Local {
		_, isPackage, err = mcpconfig.ReadPackage(name, declared)
		s.report(err)
	}
	if !isPackage && unsupported == nil && server.URL == "" && server.Command != "" && server.Image == "" && server.Build == nil && s.eval.Config.Isolation.ServerImage == "" && !isMeant("image") && !isMeant("build") {
		s.doc.Problemf(s.place(name, "", ""), "server %q has a command and no image to run it in; set its image or build (on the command line: --image), or config.isolation.server_image for all servers%s", name, launcherHint(server.Command))
	}
	if server.HasSource() {
		s.eval.checkBuild(s.doc, s.place(name, "build", ""), fmt.Sprintf("server %q", name), server.Build)
	}
	s.checkFiles(name, server.Files, "files")
	for service, config := range server.Services {
		if config != nil {
			s.eval.checkBuild(s.doc, s.place(name, "services."+service+".build", ""), fmt.Sprintf("server %q: service %q", name, service), config.Build)
			s.checkFiles(name, config.Files, "services", service, "files")
		}
	}
}

// checkBuild finds the source of a build, given at a path of the document. who names what the image is for.
func (e *Eval) checkBuild(doc *strictyaml.Document, at strictyaml.Path, who string, b *mcpconfig.Build) {
	if b == nil || e.Local || strings.Contains(b.Context+b.Dockerfile, "${") || b.Dockerfile != "" && !filepath.IsLocal(b.Dockerfile) {
		return // there is no build, it depends on variables, or it was reported
	}
	if _, _, err := images.FindRecipe(e.BuildDir(*b), *b); err != nil {
		doc.Problemf(at, "%s: build: %v", who, err)
	}
}

// BuildDir returns the directory that an image is built from.
func (e *Eval) BuildDir(b mcpconfig.Build) string { return e.besides(b.Context) }

// checkFiles finds the files of a server or a service. at is the field with the files.
func (s servers) checkFiles(server string, files map[string]string, at ...string) {
	for _, target := range slices.Sorted(maps.Keys(files)) {
		source := files[target]
		if strings.Contains(source, "${") {
			continue // depends on variables
		}
		if _, err := s.eval.roots().findAll(source); err != nil {
			at := s.place(server, strings.Join(at, "."), target)
			s.doc.Problemf(at, "server %q: file %q %v", server, source, err)
		}
	}
}

// launcherHint suggests a command that needs no image for one with a similar name.
func launcherHint(command string) string {
	hint := strictyaml.Suggest(command, mcpconfig.Launchers())
	if !strings.HasPrefix(hint, "did you mean") || slices.Contains(mcpconfig.Launchers(), command) {
		return ""
	}
	return "; " + hint
}

// report adds problems found by mcpconfig to the document.
func (s servers) report(err error) {
	var all mcpconfig.Errors
	if !errors.As(err, &all) {
		return
	}
	for _, one := range all {
		s.doc.Problemf(s.at(one), "%v", one)
	}
}

func (s servers) at(e *mcpconfig.Error) strictyaml.Path {
	return s.within(s.place(e.Server, e.Field, ""), e.Key)
}

// Locate adds to an error found after Load its position in the eval's file: the value of config that the
// message begins with, or else path.
func (e *Eval) Locate(err error, path ...any) error {
	if err == nil || e.doc == nil {
		return err
	}
	if at := e.doc.Named(nil, err.Error()); len(at) > 0 {
		path = at
	} else if e.otherExecutor {
		return err
	}
	return strictyaml.Errors{e.doc.Error(path, err)}
}

// LocateServer adds to an error about one of the eval's servers, found after Load, its position in the file
// that declares the server: the fields that it concerns, or else the server.
func (e *Eval) LocateServer(name string, err error) error {
	if err == nil || e.doc == nil {
		return err
	}
	s := servers{doc: e.doc, place: under(e.doc, "config", "mcp_servers")}
	if e.overlay != nil && e.overlay.Servers[name] != nil {
		s = servers{doc: e.overlay.Document(), place: e.overlay.Place}
	}
	var ofFields mcpconfig.Errors
	if !errors.As(err, &ofFields) {
		return strictyaml.Errors{s.doc.Error(s.place(name, "", ""), err)}
	}
	var located strictyaml.Errors
	for _, one := range ofFields {
		located = append(located, s.doc.Error(s.at(one), one))
	}
	return located
}

// within returns the path of an item of a map or list if the file has it, else the path of the
// map or list.
func (s servers) within(at strictyaml.Path, key string) strictyaml.Path {
	steps := []any{key}
	if index, err := strconv.Atoi(key); err == nil {
		steps = append(steps, index)
	}
	for _, step := range steps {
		if inner := at.With(step); key != "" && s.doc.Has(inner...) {
			return inner
		}
	}
	return at
}

// OfClient returns an eval with the servers of a client's file and no tasks, for inspections.
// Commands without an image run in image, unless that is empty. Errors are those of [Load].
func OfClient(file *mcpconfig.ClientFile, image string) (*Eval, error) {
	e := &Eval{Path: file.Name, doc: file.Document(), overlay: file}
	e.Config.MCPServers = maps.Clone(file.Servers)
	e.Config.Isolation.ServerImage = image
	servers{doc: file.Document(), place: file.Place, eval: e}.checkDeclared(file.Servers)
	return e, file.Document().Err()
}

// Allow lets servers reach hosts. An entry is NAME=HOST, where HOST has the form of a server's egress; NAME
// may be omitted if there is only one server. Its error is one sentence.
func (e *Eval) Allow(entries []string) error {
	all := e.Config.MCPServers
	names := slices.Sorted(maps.Keys(all))
	for _, entry := range entries {
		name, host, named := strings.Cut(entry, "=")
		if !named && len(names) == 1 && entry != names[0] {
			name, host = names[0], entry
		}
		switch {
		case host == "":
			return fmt.Errorf("--egress takes NAME=HOST: the name of a server, and what it may reach, such as api.example.com:443; not %s", text.Quote(entry, 64))
		case all[name] == nil:
			return fmt.Errorf("--egress: no server %s; %s", text.Quote(name, 64), strictyaml.Suggest(name, names))
		}
		server := *all[name]
		server.Egress = append(slices.Clone(server.Egress), mcpconfig.Egress{Host: host})
		var wrong mcpconfig.Errors
		if errors.As(mcpconfig.Validate(name, server), &wrong) {
			for _, one := range wrong {
				if one.Field == "egress" {
					return fmt.Errorf("--egress: %w", one)
				}
			}
		}
		all[name] = &server
	}
	return nil
}

// OfServers returns an eval without tasks, for inspections, with servers in the form that evals have. Their
// paths are relative to the directory of path. Errors have no position, since there is no file.
func OfServers(path string, all map[string]json.RawMessage) (*Eval, error) {
	data, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	doc, err := strictyaml.ParseJSON(path, data)
	if err != nil {
		return nil, err
	}
	e := &Eval{Path: path}
	doc.Decode(&e.Config.MCPServers)
	servers{doc: doc, place: under(doc), eval: e}.checkDeclared(e.Config.MCPServers)
	var problems strictyaml.Errors
	errors.As(doc.Err(), &problems)
	var messages []error
	for _, p := range problems {
		messages = append(messages, errors.New(p.Message))
	}
	return e, errors.Join(messages...)
}

// ContainerFields returns the fields of a server that need a container.
func ContainerFields(s mcpconfig.Server) (names []string) {
	ofContainers := []string{
		"files", "services", "writable", "user", "pull", "platform", "cpus", "memory", "pids", "disk", "scratch", "shm_size", "open_files", "nested_sandboxes",
	}
	for _, name := range strictyaml.Given(s) {
		if slices.Contains(ofContainers, name) {
			names = append(names, name)
		}
	}
	return names
}

// checkLocal reports fields that need a container. For a server with a command it ignores the image or build.
func (s servers) checkLocal(name string, server mcpconfig.Server) {
	if server.URL == "" && server.Command == "" {
		only := "an image"
		if server.Build != nil {
			only = "a build"
		}
		s.eval.needContainer(s.doc, s.place(name, "", ""), fmt.Sprintf("server %q has only %s", name, only), ", or a command to run on this machine")
	}
	for _, field := range ContainerFields(server) {
		s.eval.needContainer(s.doc, s.place(name, field, ""), fmt.Sprintf("server %q: %s is about its container", name, field), "")
	}
}

// needContainer reports that a setting, found at path, needs containers, unless these can still be chosen.
// what describes the setting, and instead an alternative.
func (e *Eval) needContainer(doc *strictyaml.Document, path strictyaml.Path, what, instead string) {
	if e.undecided {
		e.Contained = cmp.Or(e.Contained, what)
		return
	}
	if !e.doc.Reported("config", "isolate") {
		doc.Problemf(path, "%s: it needs --isolate%s", what, instead)
	}
}

// onThisMachine changes a server so that it passes checks for containers: its command needs no image.
func (s servers) onThisMachine(server mcpconfig.Server) mcpconfig.Server {
	if server.Command != "" {
		server.Image, server.Build = cmp.Or(server.Image, "none"), nil
	}
	return s.eval.Placed(server)
}

// Placed returns a server with an absolute working directory, if e is read for running on this machine. A
// relative one is relative to the eval. One that contains a variable is not changed.
func (e *Eval) Placed(server mcpconfig.Server) mcpconfig.Server {
	dir := server.Cwd
	if !e.Local || dir == "" || filepath.IsAbs(dir) || strings.Contains(dir, "${") {
		return server
	}
	if abs, err := filepath.Abs(e.Dir()); err == nil {
		server.Cwd = filepath.Join(strings.ReplaceAll(abs, "${", "$${"), dir)
	}
	return server
}
