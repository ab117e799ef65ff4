package eval

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcpconfig"
)

// servers checks the MCP servers of one file, which stand at a place in it.
type servers struct {
	doc   *strictyaml.Document
	place placer
	eval  *Eval
}

// placer leads to a server in a file, to a field of it or to a key of that field;
// the last two may be empty.
type placer func(server, field, key string) strictyaml.Path

// under is where servers stand that a file has as we write them.
func under(doc *strictyaml.Document, at ...any) placer {
	return func(server, field, key string) strictyaml.Path {
		path := append(slices.Clone(at), server)
		if field != "" {
			for step := range strings.SplitSeq(field, ".") {
				path = append(path, step)
			}
		}
		if key != "" && doc.Has(append(slices.Clone(path), key)...) {
			path = append(path, key)
		}
		return path
	}
}

// layServers checks the eval's servers and those of the overlay, and lays these
// over the eval's: what one of them replaces is checked no further, since it is
// never started.
func (l *loader) layServers() {
	own := maps.Clone(l.eval.Config.MCPServers)
	if o := l.opts.Overlay; o != nil {
		maps.DeleteFunc(own, func(name string, _ *mcpconfig.Server) bool { return o.Servers[name] != nil })
		servers{doc: o.Document(), place: o.Place, eval: l.eval}.checkDeclared(o.Servers)
		l.eval.Config.MCPServers = maps.Clone(own)
		if l.eval.Config.MCPServers == nil {
			l.eval.Config.MCPServers = map[string]*mcpconfig.Server{}
		}
		maps.Copy(l.eval.Config.MCPServers, o.Servers)
	}
	servers{doc: l.doc, place: under(l.doc, "config", "mcp_servers"), eval: l.eval}.checkDeclared(own)
}

// checkDeclared checks servers that an eval has, or an overlay.
func (s servers) checkDeclared(declared map[string]*mcpconfig.Server) {
	all, err := mcpconfig.Merge(declared, nil)
	s.report(err)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s.check(name, all[name])
	}
}

// merge lays overlay over the eval's servers and checks what it changed.
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
	_, err := mcpconfig.Variables(name, declared)
	s.report(err)
	server := declared
	if s.eval.Local {
		s.checkLocal(name, declared)
		server = s.onThisMachine(declared)
	} else if server, err = mcpconfig.FromDockerRun(name, declared); err != nil {
		s.report(err)
		s.report(mcpconfig.Validate(name, declared))
		return
	}
	s.report(mcpconfig.Validate(name, server))
	s.report(mcpconfig.Supported(name, server))
	_, isPackage, err := mcpconfig.ReadPackage(name, server)
	s.report(err)
	if !isPackage && server.URL == "" && server.Command != "" && server.Image == "" && s.eval.Config.Isolation.ServerImage == "" {
		s.doc.Problemf(s.place(name, "", ""), "server %q has a command and no image to run it in; give it an image, or all of them config.isolation.server_image%s", name, launcherHint(server.Command))
	}
	s.checkFiles(name, server.Files, "files")
	for service, config := range server.Services {
		if config != nil {
			s.checkFiles(name, config.Files, "services", service, "files")
		}
	}
}

// checkFiles looks for files of a server or a service, which are named under at.
func (s servers) checkFiles(server string, files map[string]string, at ...string) {
	for _, target := range slices.Sorted(maps.Keys(files)) {
		source := files[target]
		if strings.Contains(source, "${") {
			continue // known once variables are expanded
		}
		if _, err := locate(s.eval.roots(), source); err != nil {
			at := s.place(server, strings.Join(at, "."), target)
			s.doc.Problemf(at, "server %q: file %q %v", server, source, err)
		}
	}
}

// launcherHint asks about a command that is close to one that needs no image.
func launcherHint(command string) string {
	hint := strictyaml.Suggest(command, mcpconfig.Launchers())
	if !strings.HasPrefix(hint, "did you mean") {
		return ""
	}
	return "; " + hint
}

// report puts what mcpconfig found to the place it is about.
func (s servers) report(err error) {
	var all mcpconfig.Errors
	if !errors.As(err, &all) {
		return
	}
	for _, one := range all {
		at := s.within(s.place(one.Server, one.Field, ""), one.Key)
		if errors.Is(one.Class, mcpconfig.ErrNotSupported) {
			s.doc.NotSupported(at, strings.TrimPrefix(one.Error(), "not supported yet: "))
			continue
		}
		s.doc.Problemf(at, "%v", one)
	}
}

// within is the place of a map's or list's item, where the file has it, else of
// the map or list.
func (s servers) within(at strictyaml.Path, key string) strictyaml.Path {
	steps := []any{key}
	if index, err := strconv.Atoi(key); err == nil {
		steps = append(steps, index)
	}
	for _, step := range steps {
		if inner := append(slices.Clone(at), step); key != "" && s.doc.Has(inner...) {
			return inner
		}
	}
	return at
}

// ServerFiles are the files that server, after its variables are expanded, has in
// its container: by absolute path there, from beside the eval.
func ServerFiles(e *Eval, server mcpconfig.Server) (map[string]Source, error) {
	return Sources(e, server.Files)
}

// Sources finds files, told by absolute path in a container, beside the eval.
func Sources(e *Eval, wanted map[string]string) (map[string]Source, error) {
	files := make(map[string]Source, len(wanted))
	var errs []error
	for _, target := range slices.Sorted(maps.Keys(wanted)) {
		source, err := locate(e.roots(), wanted[target])
		if err != nil {
			errs = append(errs, &fs.PathError{Op: "file for " + target, Path: wanted[target], Err: err})
			continue
		}
		files[target] = source
	}
	return files, errors.Join(errs...)
}

// locate finds the regular file at path in the first of the directories that has one. Of
// other directories than the first, which is the eval's, hidden files are none of the
// eval's, but for those of agents and of GitHub.
func locate(roots []string, path string) (Source, error) {
	var first error
	for i, dir := range roots {
		if i > 0 && isHidden(path) {
			continue
		}
		source, err := local(dir, path)
		if err == nil {
			return source, nil
		}
		if first == nil {
			first = err
		}
	}
	return Source{}, first
}

func isHidden(path string) bool {
	return slices.ContainsFunc(strings.Split(filepath.ToSlash(filepath.Clean(path)), "/"), func(step string) bool {
		return strings.HasPrefix(step, ".") && !slices.Contains(agentDirectories(), step)
	})
}

// local finds the regular file at path in dir, without leaving dir.
func local(dir, path string) (Source, error) {
	file, err := os.OpenInRoot(dir, path)
	if errors.Is(err, fs.ErrNotExist) {
		return Source{}, errors.New("does not exist in " + show(dir))
	}
	if err != nil {
		return Source{}, errors.New("cannot be read in " + show(dir) + ": " + cause(err))
	}
	info, err := file.Stat()
	if err := errors.Join(err, file.Close()); err != nil {
		return Source{}, err
	}
	switch {
	case !info.Mode().IsRegular():
		return Source{}, errors.New("is not a regular file")
	case info.Size() > MaxFileBytes:
		return Source{}, fmt.Errorf("is larger than %d MiB", MaxFileBytes>>20)
	}
	return Source{Dir: dir, Path: path, Size: info.Size(), Executable: info.Mode()&0o111 != 0}, nil
}

// show is dir as a message names it.
func show(dir string) string {
	if dir == "." {
		return "this directory"
	}
	return dir
}

func cause(err error) string {
	var inner *fs.PathError
	if errors.As(err, &inner) {
		return inner.Err.Error()
	}
	return err.Error()
}
