package spec

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcpconfig"
)

// servers checks the MCP servers of one file, which stand at a place in it.
type servers struct {
	doc  *strictyaml.Document
	at   strictyaml.Path
	eval *Eval
}

// checkDeclared checks the eval's own servers.
func (s servers) checkDeclared() {
	all, err := mcpconfig.Merge(s.eval.Config.MCPServers, nil)
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

func (s servers) check(name string, server mcpconfig.Server) {
	_, err := mcpconfig.Variables(name, server)
	s.report(err)
	if s.eval.Local {
		s.checkLocal(name, server)
		server = s.onThisMachine(server)
	}
	s.report(mcpconfig.Validate(name, server))
	s.report(mcpconfig.Supported(name, server))
	if server.URL == "" && server.Command != "" && server.Image == "" && s.eval.Config.Isolation.ServerImage == "" {
		s.doc.Problemf(s.path(name), "server %q has a command and no image to run it in; give it an image, or all of them config.isolation.server_image", name)
	}
	for _, target := range slices.Sorted(maps.Keys(server.Files)) {
		source := server.Files[target]
		if strings.Contains(source, "${") {
			continue // known once variables are expanded
		}
		if _, err := local(s.eval.Dir(), source); err != nil {
			at := s.path(name, "files", target)
			s.doc.Problemf(at, "server %q: file %q %v", name, source, err)
		}
	}
}

func (s servers) path(steps ...any) strictyaml.Path { return append(slices.Clone(s.at), steps...) }

// report puts what mcpconfig found to the place it is about.
func (s servers) report(err error) {
	var all mcpconfig.Errors
	if !errors.As(err, &all) {
		return
	}
	for _, one := range all {
		at := s.path(one.Server)
		if one.Field != "" {
			at = append(at, one.Field)
		}
		if one.Key != "" && s.doc.Has(append(slices.Clone(at), one.Key)...) {
			at = append(at, one.Key)
		}
		if errors.Is(one.Class, mcpconfig.ErrNotSupported) {
			s.doc.NotSupported(at, strings.TrimPrefix(one.Error(), "not supported yet: "))
			continue
		}
		s.doc.Problemf(at, "%v", one)
	}
}

// ServerFiles are the files that server, after its variables are expanded, has in
// its container: by absolute path there, from beside the eval.
func ServerFiles(e *Eval, server mcpconfig.Server) (map[string]Source, error) {
	files := make(map[string]Source, len(server.Files))
	var errs []error
	for _, target := range slices.Sorted(maps.Keys(server.Files)) {
		source, err := local(e.Dir(), server.Files[target])
		if err != nil {
			errs = append(errs, &fs.PathError{Op: "file for " + target, Path: server.Files[target], Err: err})
			continue
		}
		files[target] = source
	}
	return files, errors.Join(errs...)
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
