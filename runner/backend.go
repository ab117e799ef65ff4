package runner

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"time"

	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/evidence"
	"github.com/waza-isolate/waza/runner/process"
	"github.com/waza-isolate/waza/runner/spec"
)

// AgentBox is where the agent runs, as [Sandbox.Start] and its kin name it. Every
// other box is a server, under its own name.
const AgentBox = "agent"

// Places in the agent's box that are the same with every backend.
const (
	WorkspaceDir  = "/workspace"
	HomeDir       = "/home/agent"
	MCPConfigPath = "/etc/waza/mcp.json"
	// GuestPath is our own executable in every container.
	GuestPath = "/opt/waza/waza"
)

// HTTPPort is the port on which the agent finds every server.
const HTTPPort = 80

// Trial is the plan of one trial: plain data, decided before anything starts.
// Of what variables brought in its JSON holds a server's image and nothing else.
type Trial struct {
	Run       string                `json:"run"`
	Task      string                `json:"task"`
	TaskName  string                `json:"task_name"`
	Number    int                   `json:"number"` // from 1
	Network   string                `json:"network"`
	Subnets   string                `json:"subnets,omitempty"`
	Runtime   string                `json:"runtime,omitempty"`
	Workspace string                `json:"workspace"`
	Timeout   time.Duration         `json:"timeout_ns"`
	Agent     Agent                 `json:"agent"`
	Servers   []Server              `json:"servers"`
	MCPJSON   string                `json:"mcp_json"`
	Files     []File                `json:"files"`
	Graders   []evidence.GraderSpec `json:"graders"`
}

// File is one file of a box, told by name and size.
type File struct{ spec.WorkspaceFile }

// MarshalJSON leaves the content out.
func (f File) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Path       string `json:"path"`
		Size       int64  `json:"size"`
		Executable bool   `json:"executable,omitempty"`
	}{f.Path, f.Size(), f.Executable()})
}

// fileOf is a file with its content at hand.
func fileOf(path, content string) File {
	return File{spec.WorkspaceFile{Path: path, Content: []byte(content)}}
}

// Box is a container and its limits.
type Box struct {
	Image  string  `json:"image"` // empty: the guest's own image, which holds nothing else
	User   string  `json:"user,omitempty"`
	CPUs   float64 `json:"cpus"`
	Memory int64   `json:"memory"` // bytes, no swap beyond
	Disk   int64   `json:"disk"`   // bytes of each writable directory
	Pids   int64   `json:"pids"`
}

// Agent is the program under evaluation and its box.
type Agent struct {
	Box
	Executor string            `json:"executor"`
	Model    string            `json:"model,omitempty"`
	Command  []string          `json:"command,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Dir      string            `json:"dir"`
	Prompt   string            `json:"prompt"`
	Context  json.RawMessage   `json:"context,omitempty"`   // the task's, as it finds it in WAZA_CONTEXT
	PromptBy string            `json:"prompt_by,omitempty"` // file, argument or stdin
	Output   string            `json:"output,omitempty"`    // stdout, or a file in the workspace
	// Transcript is where the agent leaves what it says it did; empty for none.
	Transcript string `json:"transcript,omitempty"`
	// Script is handed to the agent beside the prompt, for executor script.
	Script json.RawMessage `json:"-"`
}

// Server is one MCP server and its box. Config is as the eval has it, for people
// to read; what its variables stand for goes to the server alone.
type Server struct {
	Box
	Name           string           `json:"name"`
	Config         mcpconfig.Server `json:"config"`
	Writable       []string         `json:"writable,omitempty"` // directories, beside scratch and home
	Files          []File           `json:"files,omitempty"`    // by absolute path
	StartupTimeout time.Duration    `json:"startup_timeout_ns"`
	Timeout        time.Duration    `json:"timeout_ns"`
	// Package names what a server is installed from that is written as a command
	// which fetches it; Build is the image of it, which is Image once the package is
	// resolved.
	Package string        `json:"package,omitempty"`
	Build   *images.Image `json:"-"`

	expanded mcpconfig.Server
}

// Backend opens sandboxes. On error nothing is left behind.
type Backend interface {
	// Open makes a trial's network and boxes and returns when process 1 of each
	// answers. Happenings inside go to observe until Close returns.
	Open(ctx context.Context, t *Trial, observe func(evidence.Event)) (Sandbox, error)
}

// Sandbox is what one trial owns.
type Sandbox interface {
	// Listen takes the connections that the agent opens to any server's name on
	// port. The names are told apart by what the connection says (HTTP's Host).
	Listen(ctx context.Context, port int) (net.Listener, error)
	// Start starts a program in a box; with no Args the command of the box's image.
	Start(ctx context.Context, box string, p process.Spec) (process.Process, error)
	// Put unpacks a tar into a directory of a box.
	Put(ctx context.Context, box, dir string, tar io.Reader) error
	// Collect writes a directory of a box to w as tar, without links to
	// MCPConfigPath. The bytes are the box's word.
	Collect(ctx context.Context, box, dir string, w io.Writer) error
	// Guarantees is what is really enforced.
	Guarantees() evidence.Guarantees
	// Close ends everything, the output of every process too. It may be called
	// twice and joins what went wrong.
	Close(ctx context.Context) error
}
