// Package adapter reads descriptions of command-line agents: what an agent's image contains,
// its command line, how it gets its prompt, servers and model, and where it reports what it
// did. The built-in adapters are embedded; a user's own have the same format.
//
// It is pure: it starts nothing, and does not depend on trials or engines.
package adapter

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/agents/transcript"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/mcpconfig"
)

// Values of Output that are not a file.
const (
	Stdout     = "stdout"
	Transcript = "transcript"
)

// Adapter describes how to run one agent. Its tags are those of package strictyaml. Fields that
// may contain templates say so; see [Fill].
type Adapter struct {
	Name string `json:"-"` // name of the executor, or of the file without extension

	Title      string             `json:"title" jsonschema:"name of the agent"`
	Image      string             `json:"image,omitempty" jsonschema:"container image of the agent"`
	NPM        []string           `json:"npm,omitempty" jsonschema:"npm packages with their versions to build an image from, instead of image"`
	Setup      string             `json:"setup,omitempty" jsonschema:"shell commands to complete an image of npm packages; they get no proxy settings"`
	Command    []string           `json:"command" jsonschema:"program and arguments of a non-interactive run; templates"`
	Continue   []string           `json:"continue,omitempty" jsonschema:"program and arguments for follow-up prompts, instead of command; they must continue the previous conversation; templates"`
	Effort     []string           `json:"effort,omitempty" jsonschema:"arguments to append if the eval has a reasoning_effort, which replaces {{reasoning_effort}}"`
	Prompt     string             `json:"prompt,omitempty" enum:"file argument stdin" jsonschema:"how the prompt is passed; default argument"`
	Env        map[string]string  `json:"env,omitempty" jsonschema:"environment variables; templates"`
	Files      map[string]string  `json:"files,omitempty" jsonschema:"files to write before the agent starts, by path below home; templates"`
	MCP        mcpconfig.Shape    `json:"mcp,omitempty" enum:"standard vscode gemini opencode codex" jsonschema:"format of {{mcp_servers}}; default standard"`
	Skills     string             `json:"skills,omitempty" jsonschema:"directory in the workspace where the agent looks for skills"`
	Models     []Model            `json:"models,omitempty" jsonschema:"model providers that the agent can use, and how; default none"`
	Transcript *transcript.Source `json:"transcript,omitempty" jsonschema:"where the agent writes its transcript, and how to read it"`
	Output     string             `json:"output,omitempty" jsonschema:"source of the final output: stdout, a file in the workspace, or transcript for the messages there; default stdout"`
	ExitCodes  map[string]string  `json:"exit_codes,omitempty" jsonschema:"meaning of exit codes other than 0"`
}

// Model describes how an agent uses providers of one kind.
type Model struct {
	Kind string            `json:"kind" enum:"openai anthropic google azure" jsonschema:"the provider's kind, as in config.models"`
	Args []string          `json:"args,omitempty" jsonschema:"arguments to append to command; templates"`
	Env  map[string]string `json:"env,omitempty" jsonschema:"environment variables in addition to env; templates"`
}

// ModelOf returns how the agent uses providers of a kind. ok is false if the agent does not support them.
func (a *Adapter) ModelOf(kind string) (m Model, ok bool) {
	for _, m := range a.Models {
		if m.Kind == kind {
			return m, true
		}
	}
	return Model{}, false
}

// Kinds returns the kinds of providers that the agent supports, in order.
func (a *Adapter) Kinds() []string {
	var kinds []string
	for _, m := range a.Models {
		kinds = append(kinds, m.Kind)
	}
	return kinds
}

//go:embed *.yaml lock.json
var embedded embed.FS

// Meant returns the executor that a name stands for. One of the executors has two names.
func Meant(executor string) string {
	if executor == "copilot-sdk" {
		return "copilot"
	}
	return executor
}

// Names returns the names of the built-in adapters, sorted.
func Names() []string {
	entries, _ := embedded.ReadDir(".") // embedded files can always be read
	var names []string
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), ".yaml"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Builtin returns the built-in adapter for an executor. ok is false if there is none.
func Builtin(executor string) (a *Adapter, ok bool) {
	executor = Meant(executor)
	if !slices.Contains(Names(), executor) {
		return nil, false
	}
	file := executor + ".yaml"
	data, err := embedded.ReadFile(file)
	if err == nil {
		a, err = Parse(file, data)
	}
	if err != nil { // a test loads all of them
		panic(fmt.Sprintf("adapter: %v", err))
	}
	return a, true
}

// Lock returns the lock with the resolved packages of the built-in adapters.
var Lock = sync.OnceValue(func() *images.Lock {
	data, err := embedded.ReadFile(LockFile)
	if err == nil {
		var lock *images.Lock
		if lock, err = images.ParseLock(data); err == nil {
			return lock
		}
	}
	panic(fmt.Sprintf("adapter: %s %v", LockFile, err)) // a test reads it
})

// LockFile is the name of the file that Lock reads.
const LockFile = "lock.json"

//go:generate go run ./lock ../../bin/waza

// Build returns the image to build for the agent, with its packages as locked, or nil if its
// image is not built.
func (a *Adapter) Build(bases images.Bases, lock *images.Lock) (*images.Image, error) {
	p, err := a.Package()
	if err != nil || len(p.Wanted) == 0 {
		return nil, err
	}
	i := images.ForAgent(images.Agent{Name: a.Name, Setup: a.Setup}, p, bases, lock)
	return &i, nil
}
