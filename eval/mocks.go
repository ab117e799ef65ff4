package eval

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcp/mock"
	"github.com/waza-isolate/waza/mcpconfig"
)

// MCPMock is an MCP server that answers from a table instead of a real server.
type MCPMock struct {
	Name     string                `json:"name" jsonschema:"name of the server; a server of config.mcp_servers with the same name is not started"`
	Fixtures string                `json:"fixtures,omitempty" jsonschema:"directory of JSON files, relative to the eval; each file defines one tool, named by its name key or by the file, or several by name under tools"`
	Tools    map[string]*mock.Tool `json:"tools,omitempty" jsonschema:"tools by name"`
}

// mockFixture is a JSON file in a mock's directory of fixtures: a tool, or several.
type mockFixture struct {
	Name        string                `json:"name,omitempty"`
	Description string                `json:"description,omitempty"`
	InputSchema json.RawMessage       `json:"input_schema,omitempty"`
	Responses   []*mock.Response      `json:"responses,omitempty"`
	Tools       map[string]*mock.Tool `json:"tools,omitempty"`
}

// readMocks reads the eval's mock servers. Each replaces the server with the same name.
func readMocks(doc *strictyaml.Document, e *Eval) {
	for i, declared := range e.MCPMocks {
		at := strictyaml.Path{"mcp_mocks", i}
		if declared.Name == "" {
			continue // reported as missing
		}
		named := func(m *mock.Server) bool { return m.Name == declared.Name }
		if err := mcpconfig.CheckName(declared.Name); err != nil {
			doc.Problemf(at.With("name"), "mock server %q: the name %v", declared.Name, err)
		} else if slices.ContainsFunc(e.Mocks, named) {
			doc.Problemf(at.With("name"), "mock server %q appears twice", declared.Name)
		}
		server := &mock.Server{Name: declared.Name, Tools: map[string]*mock.Tool{}}
		if err := errors.Join(mockFixtures(e, declared.Fixtures, server), adopt(server, declared.Tools)); err != nil {
			doc.Problemf(at, "mock server %q: %s", declared.Name, flat(err))
		} else if len(server.Tools) == 0 {
			doc.Problemf(at, "mock server %q has no tools; give it tools, or fixtures", declared.Name)
		} else if err := server.Compile(); err != nil {
			doc.Problemf(at, "mock server %q: %s", declared.Name, flat(err))
		}
		e.Mocks = append(e.Mocks, server)
		delete(e.Config.MCPServers, declared.Name)
	}
}

// adopt adds tools to a server that lacks them.
func adopt(server *mock.Server, tools map[string]*mock.Tool) error {
	for name, tool := range tools {
		if server.Tools[name] != nil {
			return errors.New("tool " + name + " appears twice")
		}
		server.Tools[name] = tool
	}
	return nil
}

// mockFixtures reads the tools in a mock's directory, if it names one.
func mockFixtures(e *Eval, name string, to *mock.Server) error {
	if name == "" {
		return nil
	}
	dir := path.Clean(name)
	if !files.IsInside(dir) {
		return errors.New("fixtures must be a directory in the eval's: a relative path that does not lead out")
	}
	root, err := files.Root(e.Dir())
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	entries, err := fs.ReadDir(root.FS(), dir)
	if err != nil {
		return errors.New("fixtures " + name + " cannot be read: " + cause(err))
	}
	found := false
	for _, entry := range entries {
		file := path.Join(dir, entry.Name())
		if entry.IsDir() || path.Ext(file) != ".json" {
			continue
		}
		found = true
		content, err := e.roots().read(file)
		if err != nil {
			return errors.New("file " + file + " " + err.Error())
		}
		e.MockFiles = append(e.MockFiles, filepath.Join(e.Dir(), filepath.FromSlash(file)))
		if err := readFixture(file, content, to); err != nil {
			return err
		}
	}
	if !found {
		return errors.New("fixtures " + name + " has no .json file")
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
