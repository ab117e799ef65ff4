package eval

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"

	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/runner/cmdmock"
)

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
