// Package input defines what the runner passes to a built-in agent: its prompt, the places of its files, and
// its configuration.
package input

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
)

// MetaToolUse is the key in a request's _meta under which executor llm sends the ID of the tool use that a
// call executes.
const MetaToolUse = "waza/toolUseId"

// Input is what the runner writes to an agent's stdin, as JSON.
type Input struct {
	Prompt     string          `json:"prompt"`
	Turns      bool            `json:"turns,omitempty"`   // there may be further prompts; see Next
	Context    json.RawMessage `json:"context,omitempty"` // the context of the task, an object
	Script     json.RawMessage `json:"script,omitempty"`
	Workspace  string          `json:"workspace"`       // directory that file tools and file steps are confined to
	MCPConfig  string          `json:"mcp_config"`      // path of mcp.json
	Early      []string        `json:"early,omitempty"` // servers in MCPConfig that do not support server/discover
	Transcript string          `json:"transcript"`      // path of the transcript

	Answers *Answers `json:"answers,omitempty"` // for requests of servers; nil if there are none

	// For executor mock, which repeats these values.
	TaskName    string   `json:"task_name,omitempty"` // empty if it is the task's id
	Description string   `json:"description,omitempty"`
	Files       []string `json:"files,omitempty"` // paths in Workspace

	// For executor llm; LLM is not nil for it.
	Dir      string `json:"dir,omitempty"` // working directory; empty for the workspace
	*LLM     `json:"llm,omitempty"`
	Model    string  `json:"model,omitempty"`
	Effort   string  `json:"reasoning_effort,omitempty"` // empty for the model's default
	ModelURL string  `json:"model_url,omitempty"`        // base URL of the endpoint, without /chat/completions
	Skills   []Skill `json:"skills,omitempty"`

	// Next ends a turn and waits for the next prompt. It returns io.EOF if there is none. It is
	// nil without Turns.
	Next func() (string, error) `json:"-"`
}

// EachPrompt calls do with each prompt in turn, until it returns an error.
func (in Input) EachPrompt(do func(prompt string) error) error {
	err := do(in.Prompt)
	for err == nil && in.Next != nil {
		prompt, ended := in.Next()
		if errors.Is(ended, io.EOF) {
			break
		}
		if err = ended; err == nil {
			err = do(prompt)
		}
	}
	return err
}

// Kinds of tools, as used in LLM.Tools.
const (
	ToolsMCP   = "mcp"
	ToolsFiles = "files"
	ToolsShell = "shell"
)

// LLM configures executor llm.
type LLM struct {
	MaxTurns    int      `json:"max_turns,omitempty" min:"1" max:"10000" jsonschema:"limit of model responses; default 50"`
	System      string   `json:"system,omitempty" jsonschema:"text to append to the system prompt"`
	Tools       []string `json:"tools,omitempty" jsonschema:"kinds of tools to offer, in addition to those for skills: mcp, files, shell; default all that are possible"`
	Temperature *float64 `json:"temperature,omitempty" min:"0" max:"2" jsonschema:"sampling temperature; default the endpoint's"`
	MaxTokens   int      `json:"max_tokens,omitempty" min:"1" max:"10000000" jsonschema:"limit of tokens of each response; default the endpoint's"`
}

// Has reports whether tools of a kind are enabled.
func (l *LLM) Has(kind string) bool { return l.Tools == nil || slices.Contains(l.Tools, kind) }

// Skill is a directory with a SKILL.md, which contains instructions, and the files that it
// refers to.
type Skill struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Dir         string `json:"dir"`
}
