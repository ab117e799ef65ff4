package plan

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/waza-isolate/waza/agents/llm"
	"github.com/waza-isolate/waza/agents/transcript"
	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcp/mock"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/cmdmock"
	"github.com/waza-isolate/waza/sandbox"
)

// Trial is the plan of one trial: plain data, decided before anything starts.
// Of what variables brought in its JSON holds images, platforms, users, writable
// directories and hosts that may be reached, and nothing else.
type Trial struct {
	Run       string        `json:"run"`
	Task      string        `json:"task"`
	TaskName  string        `json:"task_name"`
	Number    int           `json:"number"`            // from 1
	Attempt   int           `json:"attempt,omitempty"` // at this trial, from 1; 0 is the first too
	Network   string        `json:"network"`
	Subnets   string        `json:"subnets,omitempty"`
	Runtime   string        `json:"runtime,omitempty"`
	Workspace string        `json:"workspace"`
	Timeout   time.Duration `json:"timeout_ns"`
	// FirstEvent is in which time the agent must begin; 0 for no limit.
	FirstEvent time.Duration         `json:"first_event_timeout_ns,omitempty"`
	Agent      Agent                 `json:"agent"`
	Servers    []Server              `json:"servers"`
	MCPJSON    string                `json:"mcp_json"`
	Files      []File                `json:"files"`
	Repos      []Repo                `json:"repos,omitempty"`
	Skills     []Skill               `json:"skills,omitempty"`
	Graders    []evidence.GraderSpec `json:"graders"`
	Judge      *evidence.Judge       `json:"judge,omitempty"` // where a grader asks one
	// GraderContainers are those of the graders that run a program.
	GraderContainers []GraderContainer `json:"grader_containers,omitempty"`
	// Models is what the agent may ask of models; nil for nothing.
	Models *Models `json:"models,omitempty"`
	// EgressLimits bound what each container that may reach something carries out.
	EgressLimits egress.Limits `json:"egress_limits,omitzero"`
	// ServersOnly is set where there is no agent: the servers live for the run.
	ServersOnly bool `json:"-"`
	// NotEnforced is what the eval asks for and only containers have, where
	// Network is NetworkNone.
	NotEnforced []string `json:"not_enforced,omitempty"`

	Canaries []evidence.Canary    `json:"canaries,omitempty"`
	Attack   *evidence.TaskAttack `json:"attack,omitempty"`
	Hooks    *Hooks               `json:"hooks,omitempty"`

	Checkpoints []eval.ResolvedCheckpoint `json:"checkpoints,omitempty"`
	Commands    []cmdmock.Command         `json:"command_mocks,omitempty"` // that are played in the agent's container
	// Trigger says that it is of a prompt of trigger_tests.yaml, which is asked once.
	Trigger bool `json:"trigger_test,omitempty"`
}

// AsksRunner says whether the agent finds something at [sandbox.ModelHost]: its models, or who plays its
// commands.
func (t *Trial) AsksRunner() bool { return t.Models != nil || len(t.Commands) > 0 }

// NetworkNone is the network of a trial on processes, which have the machine's:
// nothing of it is isolated.
const NetworkNone = "none"

// Isolated says whether the trial is planned for containers.
func (t *Trial) Isolated() bool { return t.Network != NetworkNone }

// File is one file of a container, told by name and size.
type File struct{ eval.WorkspaceFile }

// MarshalJSON leaves the content out.
func (f File) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Path       string `json:"path"`
		Size       int64  `json:"size"`
		Executable bool   `json:"executable,omitempty"`
	}{f.Path, f.Size(), f.Executable()})
}

// NewFile is a file with its content at hand.
func NewFile(path, content string) File {
	return File{eval.WorkspaceFile{Path: path, Content: []byte(content)}}
}

// Agent is the program under evaluation and its container.
type Agent struct {
	sandbox.Container
	Executor string            `json:"executor"`
	Model    string            `json:"model,omitempty"`
	Effort   string            `json:"reasoning_effort,omitempty"` // of the model; empty leaves it to that
	Command  []string          `json:"command,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Dir      string            `json:"dir"`
	Prompt   string            `json:"prompt"`
	// FollowUps are prompts behind the first, each of a run with Continue in place of Command,
	// which goes on with the conversation; agents of ours wait for them.
	FollowUps []string        `json:"follow_up_prompts,omitempty"`
	Responder *eval.Responder `json:"responder,omitempty"` // who answers the agent in their place; nil for nobody
	Continue  []string        `json:"continue,omitempty"`
	Context   json.RawMessage `json:"context,omitempty"`   // the task's, as it finds it in WAZA_CONTEXT
	PromptBy  string          `json:"prompt_by,omitempty"` // file, argument or stdin
	Output    string          `json:"output,omitempty"`    // stdout, or a file in the workspace
	// Transcript is where the agent leaves what it says it did; empty for none.
	Transcript string `json:"transcript,omitempty"`
	// Tells is where an agent that is somebody's program says so, and how that is read;
	// nil for nowhere.
	Tells *transcript.Source `json:"tells,omitempty"`
	// SkillsAt is where in the workspace it finds the trial's skills.
	SkillsAt string `json:"skills_at,omitempty"`
	// LLM is how the loop of executor llm goes; nil for other executors.
	LLM *llm.Settings `json:"llm,omitempty"`
	// MaxOutput is how many bytes each of stdout and stderr may have, and MaxCalls how
	// often the agent may call a tool; 0 for the defaults.
	MaxOutput int64 `json:"max_output,omitempty"`
	MaxCalls  int64 `json:"max_calls,omitempty"`
	// Egress is what its programs may reach outside of the trial, through the runner.
	Egress []mcpconfig.Destination `json:"egress,omitempty"`
	// Script is handed to the agent beside the prompt, for executor script.
	Script json.RawMessage `json:"-"`

	// Adapted is how an agent with an adapter is run, beside all of this; nil for others.
	Adapted *Adapted `json:"adapted,omitempty"`
	// Package names what the agent's image is built from, where it is built; Build is
	// that image, which is Image once the package is resolved.
	Package string        `json:"package,omitempty"`
	Build   *images.Image `json:"-"`
}

// Server is one MCP server and its container. Config is as the eval has it, for people
// to read; what its variables stand for goes to the server alone.
type Server struct {
	sandbox.Container
	Name           string           `json:"name"`
	Config         mcpconfig.Server `json:"config"`
	Transport      string           `json:"transport"`          // stdio, http or sse
	Remote         bool             `json:"remote,omitempty"`   // it has no container: the runner dials its URL, or answers itself
	Mock           *mock.Server     `json:"mock,omitempty"`     // what the runner answers itself; nil for a real server
	Port           int              `json:"port,omitempty"`     // of its container, on loopback; not with stdio
	Path           string           `json:"path,omitempty"`     // of its endpoint there
	Shared         bool             `json:"shared,omitempty"`   // it lives for the run, not in the trial's sandbox
	Writable       []string         `json:"writable,omitempty"` // directories, beside scratch and home
	Files          []File           `json:"files,omitempty"`    // by absolute path
	Services       []Service        `json:"services,omitempty"` // what it needs beside it, by name
	StartupTimeout time.Duration    `json:"startup_timeout_ns"`
	Timeout        time.Duration    `json:"timeout_ns"`
	MaxMessage     int64            `json:"max_message,omitempty"` // bytes; 0 for the default
	MaxFrames      int64            `json:"max_frames,omitempty"`  // messages in a trial, each way; 0 for the default
	MaxTraffic     int64            `json:"max_traffic,omitempty"` // bytes of them; 0 for the default

	// Egress is what its programs may reach outside of the trial, through the runner.
	Egress []mcpconfig.Destination `json:"egress,omitempty"`
	// Pin is what the server offered when somebody pinned that; nil for nothing. Strict says
	// that a trial where it offers something else has no outcome.
	Pin    *catalog.Pin `json:"pin,omitempty"`
	Strict bool         `json:"strict_pin,omitempty"`

	// Becomes is what a Config that is docker run comes to; nil for others.
	Becomes *mcpconfig.Server `json:"becomes,omitempty"`
	// Package names what a server is installed from that is written as a command
	// which fetches it; Build is the image of it, which is Image once the package is
	// resolved.
	Package string        `json:"package,omitempty"`
	Build   *images.Image `json:"-"`

	// Expanded is Config as the server is started with it. It holds values of variables and
	// secrets.
	Expanded mcpconfig.Server `json:"-"`
}

// Host is the host name under which the agent reaches the server.
func (s Server) Host() string { return mcpconfig.HostName(s.Name) }

// TrialID tells a trial of a run.
type TrialID struct {
	Task   string
	Number int // from 1
}

func (id TrialID) String() string { return id.Task + "/" + strconv.Itoa(id.Number) }

// ID tells the trial in its run.
func (t *Trial) ID() TrialID { return TrialID{t.Task, t.Number} }
