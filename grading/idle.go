package grading

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"

	"github.com/waza-isolate/waza/evidence"
)

// emptyTar is an archive without files: two blocks of zeros.
var emptyTar = make([]byte, 1024)

// Imagined is a call that an agent is imagined to make.
type Imagined struct {
	evidence.ToolRef
	Arguments json.RawMessage
	Answer    json.RawMessage // the member result or error of a JSON-RPC response, in an object
}

// Imagine returns the verdicts for an agent that made calls, ended with output, and left an empty workspace.
// Without calls and output, it is an agent that did nothing. Graders that need more evidence, such as a
// judge's answer, return an error verdict.
func Imagine(specs []evidence.GraderSpec, servers []string, calls []Imagined, output string) (_ []evidence.Verdict, err error) {
	dir, err := os.MkdirTemp("", "waza-idle-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	trial := evidence.Trial{Executor: evidence.ExecutorMock, Graders: specs, FinalOutput: output}
	for _, name := range servers {
		trial.Servers = append(trial.Servers, evidence.ServerRecord{Name: name})
	}
	frames, err := framesOf(calls)
	if err != nil {
		return nil, err
	}
	frames[evidence.EventsFile], frames[evidence.WorkspaceFile] = nil, emptyTar
	err = os.Mkdir(filepath.Join(dir, evidence.FramesDir), 0o700)
	for name, content := range frames {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	if err != nil {
		return nil, err
	}
	v, err := Grade(evidence.Dir(dir), trial)
	return v.Verdicts, err
}

// framesOf returns the frames of calls by file, as they are recorded.
func framesOf(calls []Imagined) (map[string][]byte, error) {
	lines := map[string][]byte{}
	for i, c := range calls {
		request, err := evidence.Marshal(map[string]any{"jsonrpc": "2.0", "id": i + 1, "method": "tools/call", "params": map[string]any{"name": c.Tool, "arguments": c.Arguments}})
		if err != nil {
			return nil, err
		}
		answer := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,%s`, i+1, bytes.TrimPrefix(c.Answer, []byte("{")))
		for n, f := range []evidence.Frame{{Dir: evidence.ToServer, Raw: request}, {Dir: evidence.ToClient, Raw: answer}} {
			f.Seq, f.Server, f.Conn = int64(2*i+n+1), c.Server, c.Server
			line, err := json.Marshal(f)
			if err != nil {
				return nil, err
			}
			name := evidence.FramesOf(f.Server)
			lines[name] = append(append(lines[name], line...), '\n')
		}
	}
	return lines, nil
}

// Empty returns the graders without a check, which always pass.
func Empty(specs []evidence.GraderSpec) (all []evidence.GraderSpec) {
	for spec, g := range readable(specs) {
		if c, ok := g.(interface{ empty() bool }); ok && c.empty() {
			all = append(all, spec)
		}
	}
	return all
}

// MissingPrograms yields the graders whose command is a relative path that cannot exist, and that
// path.
func MissingPrograms(specs []evidence.GraderSpec) iter.Seq2[evidence.GraderSpec, string] {
	return func(yield func(evidence.GraderSpec, string) bool) {
		for spec, g := range readable(specs) {
			if c, ok := g.(*ProgramConfig); ok && c.isMissing() && !yield(spec, c.Command) {
				return
			}
		}
	}
}

// ForbiddenGlobs yields the graders that forbid a tool by an exact name that no tool can have, and that
// name.
func ForbiddenGlobs(specs []evidence.GraderSpec) iter.Seq2[evidence.GraderSpec, string] {
	return func(yield func(evidence.GraderSpec, string) bool) {
		for spec, g := range readable(specs) {
			var names []string
			switch c := g.(type) {
			case *BehaviorConfig:
				names = c.ForbiddenTools
			case *ToolCallsConfig:
				names = c.ForbiddenTools
			}
			for _, name := range names {
				if !canBeName(name) && !yield(spec, name) {
					return
				}
			}
		}
	}
}

// tooled is a config that names tools of servers.
type tooled interface {
	// tools returns the tools that are given by exact name and server.
	tools() []evidence.ToolRef
}

// NamedTools returns the tools that graders refer to by exact name and server.
func NamedTools(specs []evidence.GraderSpec) (all []evidence.ToolRef) {
	for _, g := range readable(specs) {
		if names, ok := g.(tooled); ok {
			all = append(all, names.tools()...)
		}
	}
	return all
}

// NamedServers returns the servers that graders are about.
func NamedServers(specs []evidence.GraderSpec) (all []string) {
	for _, g := range readable(specs) {
		if names, ok := g.(Served); ok {
			all = append(all, names.Servers()...)
		}
	}
	return all
}
