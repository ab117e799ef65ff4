// Package spec is waza's eval and task files: their Go types, which are also
// what the JSON Schemas are generated from, and a strict reader for them.
package spec

import (
	"encoding/json"

	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/evidence"
)

// Eval is an eval file.
type Eval struct {
	Name        string   `json:"name" jsonschema:"what the eval is called in results"`
	Description string   `json:"description,omitempty"`
	Skill       string   `json:"skill,omitempty" jsonschema:"the skill under evaluation; a label"`
	Version     string   `json:"version,omitempty" jsonschema:"the eval's own version; a label"`
	Config      Config   `json:"config"`
	Graders     []Grader `json:"graders,omitempty" jsonschema:"graders of every task"`
	Metrics     []Metric `json:"metrics,omitempty"`
	Tasks       []string `json:"tasks" jsonschema:"globs of task files, relative to the eval"`

	Path string `json:"-"` // as given
}

// Config is how an eval's tasks are run.
type Config struct {
	TrialsPerTask     int                          `json:"trials_per_task" jsonschema:"trials of each task; at least 1"`
	TimeoutSeconds    int                          `json:"timeout_seconds" jsonschema:"seconds an agent may take; at least 1"`
	Parallel          bool                         `json:"parallel,omitempty" jsonschema:"run trials side by side"`
	Workers           int                          `json:"workers,omitempty" jsonschema:"trials at once when parallel; default 4"`
	MaxWorkers        int                          `json:"max_workers,omitempty" jsonschema:"older name of workers"`
	FailFast          bool                         `json:"fail_fast,omitempty" jsonschema:"start no further trial once one did not pass"`
	Executor          string                       `json:"executor" jsonschema:"mock, script or command"`
	Model             string                       `json:"model,omitempty" jsonschema:"model the agent uses; a label, handed to the agent as WAZA_MODEL"`
	MCPServers        map[string]*mcpconfig.Server `json:"mcp_servers,omitempty"`
	MCPServerLifetime string                       `json:"mcp_server_lifetime,omitempty" jsonschema:"per_task"`
	Isolation         Isolation                    `json:"isolation,omitzero"`
	Agent             *Agent                       `json:"agent,omitempty" jsonschema:"the program of executor command"`
}

// Isolation is config.isolation, read with --isolate.
type Isolation struct {
	Network     string         `json:"network,omitempty" jsonschema:"bridge (default) or airtight"`
	Agent       AgentContainer `json:"agent,omitzero"`
	ServerImage string         `json:"server_image,omitempty" jsonschema:"image of servers that have a command and no image"`
	Runtime     string         `json:"runtime,omitempty" jsonschema:"container runtime, such as runsc"`
	Subnets     string         `json:"subnets,omitempty" jsonschema:"address range task networks are cut from; default 10.213.0.0/16"`
	Workspace   string         `json:"workspace,omitempty" jsonschema:"tmpfs (default) or volume"`
	MCPJSON     string         `json:"mcp_json,omitempty" jsonschema:"when a fixture brings its own mcp.json: error (default) or keep"`
}

// AgentContainer is the container an agent runs in.
type AgentContainer struct {
	Image   string            `json:"image,omitempty" jsonschema:"container image; mock and script need none"`
	User    string            `json:"user,omitempty" jsonschema:"user or uid[:gid]; never root"`
	CPUs    float64           `json:"cpus,omitempty" jsonschema:"CPU limit; default 1"`
	Memory  string            `json:"memory,omitempty" jsonschema:"memory limit, such as 1g; default 1g"`
	Pids    int               `json:"pids,omitempty" jsonschema:"limit of processes; default 256"`
	Disk    string            `json:"disk,omitempty" jsonschema:"size limit of the workspace, such as 1g; default 512m"`
	Env     map[string]string `json:"env,omitempty" jsonschema:"environment of the agent"`
	Workdir string            `json:"workdir,omitempty" jsonschema:"where the agent starts, relative to the workspace"`
}

// Agent is the program of the command executor.
type Agent struct {
	Command string   `json:"command" jsonschema:"program in the agent's image"`
	Args    []string `json:"args,omitempty" jsonschema:"its arguments; {{prompt_file}} stands for the prompt's path"`
	Prompt  string   `json:"prompt,omitempty" jsonschema:"how the prompt arrives: file, argument (default) or stdin"`
	Output  string   `json:"output,omitempty" jsonschema:"where the final output is: stdout (default) or a file in the workspace"`
}

// Metric is a figure over the whole run.
type Metric struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Weight      *float64 `json:"weight,omitempty"`
	Threshold   *float64 `json:"threshold,omitempty"`
	Enabled     *bool    `json:"enabled,omitempty"`
}

// Grader is a grader as written; Config is of the type its Type names.
type Grader struct {
	Type   string          `json:"type"`
	Name   string          `json:"name"`
	Weight float64         `json:"weight,omitempty"`
	Config json.RawMessage `json:"config,omitempty"`
}

// Task is a task file.
type Task struct {
	ID             string                       `json:"id"`
	Name           string                       `json:"name"`
	Description    string                       `json:"description,omitempty"`
	Tags           []string                     `json:"tags,omitempty"`
	Enabled        *bool                        `json:"enabled,omitempty"`
	TimeoutSeconds int                          `json:"timeout_seconds,omitempty"`
	Inputs         Inputs                       `json:"inputs"`
	Expected       *Expected                    `json:"expected,omitempty"`
	Graders        []Grader                     `json:"graders,omitempty"`
	MCPServers     map[string]*mcpconfig.Server `json:"mcp_servers,omitempty"`
	Script         json.RawMessage              `json:"script,omitempty" jsonschema:"steps of the script executor"`

	Path string `json:"-"`
}

// Inputs is what a task hands to the agent.
type Inputs struct {
	Prompt      string            `json:"prompt"`
	Context     map[string]any    `json:"context,omitempty" jsonschema:"handed to the agent as JSON in WAZA_CONTEXT"`
	Files       []File            `json:"files,omitempty"`
	Environment map[string]string `json:"environment,omitempty"`
}

// File is one file of the workspace: from the fixtures, or with its content here.
type File struct {
	Path    string  `json:"path"`
	Content *string `json:"content,omitempty"`
}

// Expected is the short form of common graders.
type Expected struct {
	OutputContains    []string  `json:"output_contains,omitempty"`
	OutputNotContains []string  `json:"output_not_contains,omitempty"`
	Behavior          *Behavior `json:"behavior,omitempty"`
}

// Behavior is expected.behavior.
type Behavior struct {
	MaxToolCalls   *int     `json:"max_tool_calls,omitempty"`
	RequiredTools  []string `json:"required_tools,omitempty"`
	ForbiddenTools []string `json:"forbidden_tools,omitempty"`
}

// GraderSpecs is what graders must hold when a trial is graded.
type GraderSpecs = []evidence.GraderSpec
