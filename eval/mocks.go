package eval

import (
	"encoding/json"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcp/mock"
	"github.com/waza-isolate/waza/mcpconfig"
)

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

// mockNames are the names of the eval's mock servers.
func (e *Eval) mockNames() (names []string) {
	for _, mock := range e.Mocks {
		names = append(names, mock.Name)
	}
	return names
}
