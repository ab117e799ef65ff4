package grading

import (
	"errors"
	"iter"
	"os"
	"path/filepath"

	"github.com/waza-isolate/waza/evidence"
)

// emptyTar is an archive without files: two blocks of zeros.
var emptyTar = make([]byte, 1024)

// Idle returns the verdicts for an agent that did nothing: no output, no calls and an empty
// workspace. Graders that need more evidence, such as a judge's answer, return an error
// verdict.
func Idle(specs []evidence.GraderSpec, servers []string) (_ []evidence.Verdict, err error) {
	dir, err := os.MkdirTemp("", "waza-idle-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	trial := evidence.Trial{Executor: evidence.ExecutorMock, Graders: specs}
	for _, name := range servers {
		trial.Servers = append(trial.Servers, evidence.ServerRecord{Name: name})
	}
	for name, content := range map[string][]byte{evidence.FramesFile: nil, evidence.EventsFile: nil, evidence.WorkspaceFile: emptyTar} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	if err != nil {
		return nil, err
	}
	v, err := Grade(evidence.Dir(dir), trial)
	return v.Verdicts, err
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
