package runner

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
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
	"github.com/waza-isolate/waza/sandbox/observe"
	"github.com/waza-isolate/waza/sandbox/process"
)

// AgentBox is where the agent runs, as [Sandbox.Start] and its kin name it. Every
// other box is a server, under its own name, or a service, as [ServiceBox] says.
const AgentBox = "agent"

// RelayBox is what connects the agent's box with the runner, where that is a box of
// its own: it is gone when the network is, too. Of a sandbox that has none it lasts
// as long as the sandbox.
const RelayBox = "relay"

// Places in the agent's box as plans, [Sandbox.Put] and [Sandbox.Collect] name
// them. Programs in it are told those of its [Layout].
const (
	WorkspaceDir  = "/workspace"
	HomeDir       = "/home/agent"
	MCPConfigPath = "/etc/waza/mcp.json"
	// SkillsDir holds a directory for each skill.
	SkillsDir = HomeDir + "/skills"
	// GuestPath is our own executable.
	GuestPath = "/opt/waza/waza"
)

// Layout is where the programs of a box find things.
type Layout struct {
	Workspace string // of the agent's box
	MCPConfig string // the same
	Home      string // what programs find as theirs; empty leaves them the one they have
	Private   string // of the agent's box: what is planned for HomeDir
	Guest     string // our own executable
	// Models is the URL that providers of models are below, where the trial has any; set
	// once [Sandbox.Listen] has returned.
	Models string
}

// DefaultOpenFiles is how many files a process may have open.
const DefaultOpenFiles = 4096

// RelayLimits are the limits of [RelayBox].
func RelayLimits() Box {
	return Box{CPUs: 1, Memory: 128 << 20, Pids: 64, OpenFiles: DefaultOpenFiles}
}

// ContainerLayout is the layout of every container.
func ContainerLayout() Layout {
	return Layout{Workspace: WorkspaceDir, MCPConfig: MCPConfigPath, Home: HomeDir, Private: HomeDir, Guest: GuestPath, Models: "http://" + ModelHost}
}

// Ours are the places in the agent's box that links of ours in its workspace lead to.
func (l Layout) Ours() []string { return []string{l.MCPConfig, l.At(SkillsDir)} }

// At is the place that a program finds a planned path at.
func (l Layout) At(planned string) string {
	for _, dir := range []struct{ planned, actual string }{
		{WorkspaceDir, l.Workspace}, {HomeDir, l.Private}, {MCPConfigPath, l.MCPConfig}, {GuestPath, l.Guest},
	} {
		if rest, ok := strings.CutPrefix(planned, dir.planned); ok && (rest == "" || rest[0] == '/') {
			return dir.actual + rest
		}
	}
	return planned
}

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
	// GraderBoxes are those of the graders that run a program.
	GraderBoxes []GraderBox `json:"grader_boxes,omitempty"`
	// Models is what the agent may ask of models; nil for nothing.
	Models *Models `json:"models,omitempty"`
	// EgressLimits bound what each box that may reach something carries out.
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
	Commands    []cmdmock.Command         `json:"command_mocks,omitempty"` // that are played in the agent's box
	// Trigger says that it is of a prompt of trigger_tests.yaml, which is asked once.
	Trigger bool `json:"trigger_test,omitempty"`
}

// AsksRunner says whether the agent finds something at [ModelHost]: its models, or who plays its
// commands.
func (t *Trial) AsksRunner() bool { return t.Models != nil || len(t.Commands) > 0 }

// NetworkNone is the network of a trial on processes, which have the machine's:
// nothing of it is isolated.
const NetworkNone = "none"

// Isolated says whether the trial is planned for containers.
func (t *Trial) Isolated() bool { return t.Network != NetworkNone }

// File is one file of a box, told by name and size.
type File struct{ eval.WorkspaceFile }

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
	return File{eval.WorkspaceFile{Path: path, Content: []byte(content)}}
}

// Box is a container and its limits.
type Box struct {
	Image  string  `json:"image"` // empty: the guest's own image, which holds nothing else
	User   string  `json:"user,omitempty"`
	CPUs   float64 `json:"cpus"`
	Memory int64   `json:"memory"` // bytes, no swap beyond
	Disk   int64   `json:"disk"`   // bytes of each writable directory
	Pids   int64   `json:"pids"`
	// OpenFiles is how many files each process may have open; 0 for
	// [DefaultOpenFiles].
	OpenFiles int64 `json:"open_files,omitempty"`
	// Scratch is how many bytes each of /tmp and home may hold; 0 for Disk.
	Scratch int64 `json:"scratch,omitempty"`

	// Platform is what the image must be for, as os/architecture; empty for the
	// engine's own.
	Platform string `json:"platform,omitempty"`
	// Pull is when the image is pulled, as in mcpconfig.PullPolicies; empty for
	// where it is missing.
	Pull string `json:"pull,omitempty"`
}

// Agent is the program under evaluation and its box.
type Agent struct {
	Box
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

// Server is one MCP server and its box. Config is as the eval has it, for people
// to read; what its variables stand for goes to the server alone.
type Server struct {
	Box
	Name           string           `json:"name"`
	Config         mcpconfig.Server `json:"config"`
	Transport      string           `json:"transport"`          // stdio, http or sse
	Remote         bool             `json:"remote,omitempty"`   // it has no box: the runner dials its URL, or answers itself
	Mock           *mock.Server     `json:"mock,omitempty"`     // what the runner answers itself; nil for a real server
	Port           int              `json:"port,omitempty"`     // of its box, on loopback; not with stdio
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

	expanded mcpconfig.Server
}

// Host is the host name under which the agent reaches the server.
func (s Server) Host() string { return mcpconfig.HostName(s.Name) }

// Place is where the agent finds servers.
type Place struct {
	net.Listener
	Server string // the one found here, or [ModelHost]; empty for all, told apart by HTTP's Host
	Host   string // what stands for the server in its URL; empty for its name
}

// Backend opens sandboxes. On error nothing is left behind.
type Backend interface {
	// Open makes a trial's network and boxes and returns when process 1 of each
	// answers. Happenings inside go to observe until Close returns.
	Open(ctx context.Context, t *Trial, observe func(evidence.Event)) (Sandbox, error)
}

// ErrEngineGone says that what a [Backend] is on went away, or does not answer.
var ErrEngineGone = errors.New("the engine went away")

// Recoverer is a [Backend] on something that can go away and come back.
type Recoverer interface {
	// Recover returns once sandboxes can be opened, or with ctx and then says why
	// they cannot.
	Recover(ctx context.Context) error
}

// Adviser is a [Sandbox] that knows what is special about its boxes.
type Adviser interface {
	// Advice is what a program's failure to start in a box may come from, and what
	// to do; empty for nothing.
	Advice(box string) string
}

// Finder is a [Sandbox] that looks into all of its boxes.
type Finder interface {
	// Find writes what stands at an absolute path of a box to w, as a tar of that one
	// entry, or of none where nothing is there. No link is followed: one on the way is
	// told in the place of what is behind it. The bytes are the box's word.
	Find(ctx context.Context, box, path string, w io.Writer) error
}

// Observer is a [Sandbox] that watches what the programs of servers and services do
// beside answering.
type Observer interface {
	// Observe is what those of a box did so far: its guest's word. It fails where the box
	// has ended.
	Observe(ctx context.Context, box string) (observe.Seen, error)
}

// PortSharer is a [Sandbox] whose boxes share the ports of one machine.
type PortSharer interface {
	// TakePort has a port for a server's program alone, until Close. It is called
	// before that is started, and fails where somebody else has the port: who
	// listens there would be taken for the server.
	TakePort(ctx context.Context, server string, port int) error
}

// Outlet is a [Sandbox] whose boxes may reach what is outside, through the runner.
type Outlet interface {
	Sandbox
	// ListenAt takes in what connects to an address of a box's own loopback, until the
	// listener is closed or the box has ended. Names that the box may
	// reach resolve there as [egress.Names] says.
	ListenAt(ctx context.Context, box string, at netip.AddrPort) (net.Listener, error)
}

// Sandbox is what one trial owns.
type Sandbox interface {
	// Layout is where programs in a box find things.
	Layout(box string) Layout
	// Listen opens the places where the agent finds its servers, and its models where it
	// has any.
	Listen(ctx context.Context) ([]Place, error)
	// Dial connects to a port on the loopback of a server's box, over IPv4 or
	// IPv6.
	Dial(ctx context.Context, server string, port int) (net.Conn, error)
	// Start starts a program in a box; with no Args, or OfImage, that of its image.
	Start(ctx context.Context, box string, p process.Spec) (process.Process, error)
	// Put unpacks a tar into a directory of a box.
	Put(ctx context.Context, box, dir string, tar io.Reader) error
	// Collect writes a directory of a box to w as tar, without links to
	// MCPConfigPath. The bytes are the box's word.
	Collect(ctx context.Context, box, dir string, w io.Writer) error
	// Usage is what a box used so far: its own word, and the last one where it has
	// ended. It fails where nothing of that can be seen.
	Usage(ctx context.Context, box string) (evidence.Usage, error)
	// Gone is closed when a box has ended, by itself or at Close.
	Gone(box string) <-chan struct{}
	// Ended says whether a box does not answer any more, and whose doing that was. It
	// is asked before Close. What runs in the box cannot have it say that it was
	// somebody else.
	Ended(ctx context.Context, box string) Ending
	// Guarantees is what is really enforced.
	Guarantees() evidence.Guarantees
	// Close ends everything, the output of every process too. It may be called
	// twice and joins what went wrong.
	Close(ctx context.Context) error
}
