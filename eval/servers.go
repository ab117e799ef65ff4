package eval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcp/mock"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/cmdmock"
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

// maxFixtures is how many files of tools a mock server may have.
const maxFixtures = 1000

// MCPMock is an MCP server that answers from a table, in place of a real one.
type MCPMock struct {
	Name     string                `json:"name" jsonschema:"what the agent calls the server; one of config.mcp_servers of this name is not started"`
	Fixtures string                `json:"fixtures,omitempty" jsonschema:"directory of JSON files, relative to the eval: each a tool, by its name or that of the file, or tools by name under tools"`
	Tools    map[string]*mock.Tool `json:"tools,omitempty" jsonschema:"tools by name"`
}

// mockFixture is a JSON file of a mock's fixtures: a tool, or several.
type mockFixture struct {
	Name        string                `json:"name,omitempty"`
	Description string                `json:"description,omitempty"`
	InputSchema json.RawMessage       `json:"input_schema,omitempty"`
	Responses   []*mock.Response      `json:"responses,omitempty"`
	Tools       map[string]*mock.Tool `json:"tools,omitempty"`
}

// mocks reads the eval's mock servers. Each takes the place of a server of its name.
func (l *loader) mocks() {
	for i, declared := range l.eval.MCPMocks {
		at := strictyaml.Path{"mcp_mocks", i}
		if declared.Name == "" {
			continue // reported as missing
		}
		named := func(m *mock.Server) bool { return m.Name == declared.Name }
		if err := mcpconfig.CheckName(declared.Name); err != nil {
			l.doc.Problemf(append(slices.Clone(at), "name"), "%v", err)
		} else if slices.ContainsFunc(l.eval.Mocks, named) {
			l.doc.Problemf(append(slices.Clone(at), "name"), "mock server %q stands here twice", declared.Name)
		}
		server := &mock.Server{Name: declared.Name, Tools: map[string]*mock.Tool{}}
		if err := errors.Join(l.mockFixtures(declared, server), adopt(server, declared.Tools)); err != nil {
			l.doc.Problemf(at, "mock server %q: %s", declared.Name, flat(err))
		} else if len(server.Tools) == 0 {
			l.doc.Problemf(at, "mock server %q has no tools; give it tools, or fixtures", declared.Name)
		} else if err := server.Compile(); err != nil {
			l.doc.Problemf(at, "mock server %q: %s", declared.Name, flat(err))
		}
		l.eval.Mocks = append(l.eval.Mocks, server)
		delete(l.eval.Config.MCPServers, declared.Name)
	}
}

// adopt gives a server tools that it does not have yet.
func adopt(server *mock.Server, tools map[string]*mock.Tool) error {
	for name, tool := range tools {
		if server.Tools[name] != nil {
			return errors.New("tool " + name + " stands there twice")
		}
		server.Tools[name] = tool
	}
	return nil
}

// mockFixtures reads the tools of a mock's directory.
func (l *loader) mockFixtures(declared MCPMock, to *mock.Server) error {
	if declared.Fixtures == "" {
		return nil
	}
	dir := path.Clean(declared.Fixtures)
	if !isInside(dir) {
		return errors.New("fixtures must be a directory in the eval's: a relative path that does not lead out")
	}
	root, err := os.OpenRoot(l.eval.Dir())
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	at, err := root.Open(filepath.FromSlash(dir))
	if err != nil {
		return errors.New("fixtures " + declared.Fixtures + " cannot be read: " + cause(err))
	}
	entries, err := at.ReadDir(-1)
	_ = at.Close()
	if err != nil {
		return errors.New("fixtures " + declared.Fixtures + " cannot be read: " + cause(err))
	}
	found := 0
	for _, entry := range entries {
		name := path.Join(dir, entry.Name())
		if entry.IsDir() || path.Ext(name) != ".json" {
			continue
		}
		if found++; found > maxFixtures {
			return errors.New("fixtures " + declared.Fixtures + " has too many files")
		}
		content, err := readInside(l.eval.roots(), name)
		if err != nil {
			return errors.New("file " + name + " " + err.Error())
		}
		l.eval.MockFiles = append(l.eval.MockFiles, filepath.Join(l.eval.Dir(), filepath.FromSlash(name)))
		if err := readFixture(name, content, to); err != nil {
			return err
		}
	}
	if found == 0 {
		return errors.New("fixtures " + declared.Fixtures + " has no .json file")
	}
	return nil
}

// readFixture adds the tools of a file to a server.
func readFixture(name string, content []byte, to *mock.Server) error {
	doc, err := strictyaml.Parse(name, content)
	if err != nil {
		return err
	}
	var f mockFixture
	doc.Decode(&f)
	if err := doc.Err(); err != nil {
		return err
	}
	tools := f.Tools
	if f.Responses != nil {
		if tools != nil {
			return errors.New("file " + name + " has responses and tools; give it one of them")
		}
		if f.Name == "" {
			f.Name = strings.TrimSuffix(path.Base(name), ".json")
		}
		tools = map[string]*mock.Tool{f.Name: {Description: f.Description, InputSchema: f.InputSchema, Responses: f.Responses}}
	}
	if len(tools) == 0 {
		return errors.New("file " + name + " has neither responses nor tools")
	}
	return adopt(to, tools)
}

// CommandMock is a program that answers from a table, in place of a real one.
type CommandMock struct {
	_ struct{} `unknown:"warn"`

	Name        string            `json:"name" jsonschema:"what the agent calls the program"`
	Responses   []CommandResponse `json:"responses" jsonschema:"answers; the first that matches is given"`
	ExpectCalls *int              `json:"expect_calls,omitempty" min:"0" jsonschema:"how often it has to be called; default any number"`
}

// CommandResponse is an answer, and what has to hold of the invocations that it is for.
type CommandResponse struct {
	_ struct{} `unknown:"warn"`

	Args        []string          `json:"args,omitempty" jsonschema:"the arguments, all of them"`
	ArgsRegex   []string          `json:"args_regex,omitempty" jsonschema:"a regular expression for each argument, which it is from its beginning to its end"`
	Environment map[string]string `json:"environment,omitempty" jsonschema:"variables of the program's environment"`
	Workdir     string            `json:"workdir,omitempty" jsonschema:"the directory that it is started in, relative to the workspace"`
	Stdout      json.RawMessage   `json:"stdout,omitempty" jsonschema:"what it writes: a string as it is, all else as JSON"`
	Fixture     string            `json:"fixture,omitempty" jsonschema:"file that it writes in place of stdout, relative to the eval"`
	Stderr      string            `json:"stderr,omitempty" jsonschema:"what it writes to stderr"`
	ExitCode    int               `json:"exit_code,omitempty" min:"0" max:"255" jsonschema:"how it exits; default 0"`
}

// commandMocks reads programs that are played, of the document of an eval or a task.
func (l *loader) commandMocks(doc *strictyaml.Document, mocks []CommandMock) []cmdmock.Command {
	var all []cmdmock.Command
	for i, mock := range mocks {
		at := strictyaml.Path{"command_mocks", i}
		if slices.ContainsFunc(all, func(c cmdmock.Command) bool { return c.Name == mock.Name }) {
			doc.Problemf(append(slices.Clone(at), "name"), "command %q stands here twice", mock.Name)
		}
		command := cmdmock.Command{Name: mock.Name, ExpectCalls: mock.ExpectCalls}
		for n, r := range mock.Responses {
			command.Responses = append(command.Responses, l.commandResponse(doc, r, append(slices.Clone(at), "responses", n)))
		}
		if err := command.Compile(); err != nil && mock.Name != "" {
			doc.Problemf(at, "command %q: %s", mock.Name, flat(err))
		}
		all = append(all, command)
	}
	return all
}

func (l *loader) commandResponse(doc *strictyaml.Document, r CommandResponse, at strictyaml.Path) cmdmock.Response {
	out := cmdmock.Response{Args: r.Args, ArgsRegex: r.ArgsRegex, Environment: r.Environment, Workdir: r.Workdir, Stderr: r.Stderr, ExitCode: r.ExitCode}
	if r.Workdir != "" && !isInside(r.Workdir) {
		doc.Problemf(append(slices.Clone(at), "workdir"), "%s.workdir must be a directory in the workspace, relative and without leading out", at)
	}
	var text string
	switch {
	case r.Fixture != "" && r.Stdout != nil:
		doc.Problemf(append(slices.Clone(at), "fixture"), "%s has stdout and a fixture; give it one of them", at)
	case r.Fixture != "":
		var err error
		if out.Stdout, err = readBounded(l.eval.Dir(), r.Fixture); err != nil {
			doc.Problemf(append(slices.Clone(at), "fixture"), "%s: fixture %s %v", at, r.Fixture, err)
		}
		l.eval.MockFiles = append(l.eval.MockFiles, filepath.Join(l.eval.Dir(), filepath.FromSlash(r.Fixture)))
	case json.Unmarshal(r.Stdout, &text) == nil:
		out.Stdout = []byte(text)
	case r.Stdout != nil:
		var compact bytes.Buffer
		if json.Compact(&compact, r.Stdout) == nil {
			out.Stdout = compact.Bytes()
		}
	}
	return out
}

// OfClient is an eval that has the servers of a client's file and no tasks: enough to
// start them. Commands without an image run in image, where that is not empty. Errors
// are as [Load] has them.
func OfClient(file *mcpconfig.ClientFile, image string) (*Eval, error) {
	e := &Eval{Path: file.Name}
	e.Config.MCPServers = maps.Clone(file.Servers)
	e.Config.Isolation.ServerImage = image
	servers{doc: file.Document(), place: file.Place, eval: e}.checkDeclared(file.Servers)
	return e, file.Document().Err()
}
