package eval

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcp/mock"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/cmdmock"
)

// MCPMock is an MCP server that answers from a table, in place of a real one.
type MCPMock struct {
	Name     string                `json:"name" jsonschema:"name of the server; a server of config.mcp_servers with the same name is not started"`
	Fixtures string                `json:"fixtures,omitempty" jsonschema:"directory of JSON files, relative to the eval; each file defines one tool, named by its name key or by the file, or several by name under tools"`
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

// readMocks reads the eval's mock servers. Each takes the place of a server of its name.
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
	root, err := os.OpenRoot(e.Dir())
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
		content, err := e.roots().read(file, maxGraderFile)
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

// CommandMock is a program that answers from a table, in place of a real one.
type CommandMock struct {
	_ struct{} `unknown:"warn"`

	Name        string            `json:"name" jsonschema:"name of the program"`
	Responses   []CommandResponse `json:"responses" jsonschema:"responses; the first that matches is used"`
	ExpectCalls *int              `json:"expect_calls,omitempty" min:"0" jsonschema:"how often the program must be called; default any number of times"`
}

// CommandResponse is an answer, and the conditions on the invocations that get it.
type CommandResponse struct {
	_ struct{} `unknown:"warn"`

	Args        []string          `json:"args,omitempty" jsonschema:"the complete list of arguments"`
	ArgsRegex   []string          `json:"args_regex,omitempty" jsonschema:"one regular expression for each argument, which must match the whole argument"`
	Environment map[string]string `json:"environment,omitempty" jsonschema:"environment variables of the program"`
	Workdir     string            `json:"workdir,omitempty" jsonschema:"working directory, relative to the workspace"`
	Stdout      json.RawMessage   `json:"stdout,omitempty" jsonschema:"output: a string is written as is, anything else as JSON"`
	Fixture     string            `json:"fixture,omitempty" jsonschema:"file to output instead of stdout, relative to the eval"`
	Stderr      string            `json:"stderr,omitempty" jsonschema:"output on stderr"`
	ExitCode    int               `json:"exit_code,omitempty" min:"0" max:"255" jsonschema:"exit code; default 0"`
}

// commandMocks reads the command mocks of an eval's or a task's document.
func commandMocks(doc *strictyaml.Document, e *Eval, mocks []CommandMock) []cmdmock.Command {
	var all []cmdmock.Command
	for i, mock := range mocks {
		at := strictyaml.Path{"command_mocks", i}
		if slices.ContainsFunc(all, func(c cmdmock.Command) bool { return c.Name == mock.Name }) {
			doc.Problemf(at.With("name"), "command %q appears twice", mock.Name)
		}
		command := cmdmock.Command{Name: mock.Name, ExpectCalls: mock.ExpectCalls}
		for n, r := range mock.Responses {
			command.Responses = append(command.Responses, commandResponse(doc, e, r, at.With("responses", n)))
		}
		if err := command.Compile(); err != nil && mock.Name != "" {
			doc.Problemf(at, "command %q: %s", mock.Name, flat(err))
		}
		all = append(all, command)
	}
	return all
}

func commandResponse(doc *strictyaml.Document, e *Eval, r CommandResponse, at strictyaml.Path) cmdmock.Response {
	out := cmdmock.Response{Args: r.Args, ArgsRegex: r.ArgsRegex, Environment: r.Environment, Workdir: r.Workdir, Stderr: r.Stderr, ExitCode: r.ExitCode}
	checkInside(doc, at.With("workdir"), r.Workdir, "a directory in the workspace")
	var text string
	switch {
	case r.Fixture != "" && r.Stdout != nil:
		doc.Problemf(at.With("fixture"), "%s has stdout and a fixture; give it one of them", at)
	case r.Fixture != "":
		var err error
		if out.Stdout, err = readBelow(e.Dir(), r.Fixture); err != nil {
			doc.Problemf(at.With("fixture"), "%s: fixture %s %v", at, r.Fixture, err)
		}
		e.MockFiles = append(e.MockFiles, filepath.Join(e.Dir(), filepath.FromSlash(r.Fixture)))
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
