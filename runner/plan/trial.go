package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/cmdmock"
	"github.com/waza-isolate/waza/sandbox"
)

// Trial is the plan of one trial: plain data, decided before anything starts. Its JSON contains
// values of variables only in images, platforms, users, writable directories and egress.
type Trial struct {
	Run       string        `json:"run"`
	Task      string        `json:"task"`
	TaskName  string        `json:"task_name"`
	About     string        `json:"description,omitempty"` // the task's description of itself
	Number    int           `json:"number"`                // starts at 1
	Attempt   int           `json:"attempt,omitempty"`     // starts at 1; 0 is also the first
	Network   string        `json:"network"`
	Subnets   string        `json:"subnets,omitempty"`
	Runtime   string        `json:"runtime,omitempty"`
	Workspace string        `json:"workspace"`
	Timeout   time.Duration `json:"timeout_ns"`
	// FirstEvent is the time limit for the agent's first event; 0 for none.
	FirstEvent time.Duration         `json:"first_event_timeout_ns,omitempty"`
	Agent      Agent                 `json:"agent"`
	Servers    []Server              `json:"servers"`
	MCPJSON    string                `json:"mcp_json"`
	Files      []File                `json:"files"`
	Repos      []Repo                `json:"repos,omitempty"`
	Skills     []Skill               `json:"skills,omitempty"`
	Graders    []evidence.GraderSpec `json:"graders"`
	Judge      *evidence.Judge       `json:"judge,omitempty"` // nil if no grader asks one
	// GraderContainers are the containers of graders that run a program.
	GraderContainers []GraderContainer `json:"grader_containers,omitempty"`
	// Models are the models that the agent may ask; may be nil.
	Models *Models `json:"models,omitempty"`
	// EgressLimits apply to each container with egress.
	EgressLimits egress.Limits `json:"egress_limits,omitzero"`
	// ServersOnly is set if there is no agent: the servers live as long as the run.
	ServersOnly bool `json:"-"`
	// Kubernetes is the cluster that the trial runs on, or nil. ImagesFile is the path of the
	// list of images in the cluster.
	Kubernetes *eval.Kubernetes `json:"kubernetes,omitempty"`
	ImagesFile string           `json:"-"`
	// NotEnforced are settings of the eval that have no effect because nothing is isolated.
	NotEnforced []string `json:"not_enforced,omitempty"`

	Canaries []evidence.Canary    `json:"canaries,omitempty"`
	Attack   *evidence.TaskAttack `json:"attack,omitempty"`
	Hooks    Hooks                `json:"hooks,omitzero"`

	Checkpoints []eval.ResolvedCheckpoint `json:"checkpoints,omitempty"`
	Commands    []cmdmock.Command         `json:"command_mocks,omitempty"` // mocked in the agent's container
	// Trigger is set for trigger tests, which are run once.
	Trigger bool `json:"trigger_test,omitempty"`
}

// WorkspaceVolume is the workspace of a trial that has a volume for it, of any size.
const WorkspaceVolume = "volume"

// NetworkNone is the network of a trial without isolation, which uses that of the machine.
const NetworkNone = "none"

// Isolated reports whether the trial runs in containers.
func (t *Trial) Isolated() bool { return t.Network != NetworkNone }

// AsksRunner reports whether the agent connects to [sandbox.ModelHost], for models or mocked
// commands.
func (t *Trial) AsksRunner() bool { return t.Models != nil || len(t.Commands) > 0 }

// TakesTurns reports whether the trial may have more than one turn.
func (t *Trial) TakesTurns() bool {
	return len(t.Agent.FollowUps)+len(t.Checkpoints) > 0 || t.Agent.Responder != nil
}

// UnderAttack reports whether the trial has injections.
func (t *Trial) UnderAttack() bool { return t.Attack != nil && !t.Attack.Withheld }

// AllGraders returns the graders of the trial and of its attack.
func (t *Trial) AllGraders() []evidence.GraderSpec {
	return evidence.Trial{Graders: t.Graders, Attack: t.Attack}.AllGraders()
}

// GraderContainerOf returns the container of a grader of the trial, not of a checkpoint.
func (t *Trial) GraderContainerOf(grader string) (GraderContainer, bool) {
	i := slices.IndexFunc(t.GraderContainers, func(b GraderContainer) bool { return b.Grader == grader && b.Turn == 0 })
	if i < 0 {
		return GraderContainer{}, false
	}
	return t.GraderContainers[i], true
}

// agentNames returns the host names of the trial itself.
func (t *Trial) agentNames() []string {
	var names []string
	if t.AsksRunner() {
		names = append(names, sandbox.ModelHost)
	}
	for _, s := range t.Servers {
		names = append(names, s.Host())
	}
	return names
}

// outgoing is a container with egress, with its name for messages.
type outgoing struct {
	Who     string
	Allowed []mcpconfig.Destination
}

// Outgoing returns the containers of the trial that have egress.
func (t *Trial) Outgoing() []outgoing {
	containers := []outgoing{{"the agent", t.Agent.Egress}}
	for _, s := range t.Servers {
		containers = append(containers, outgoing{fmt.Sprintf("server %q", s.Name), s.Egress})
	}
	return slices.DeleteFunc(containers, func(o outgoing) bool { return len(o.Allowed) == 0 })
}

// Link is a symbolic link in the workspace.
type Link struct{ Name, Target string }

// Links returns the links to mcp.json and the skills, except where a file of the workspace has
// the same path.
func (t *Trial) Links(container sandbox.Layout) []Link {
	var all []Link
	for _, name := range eval.ClientConfigs() {
		all = append(all, Link{name, container.MCPConfig})
	}
	if len(t.Skills) > 0 {
		all = append(all, Link{t.Agent.SkillsAt, container.At(sandbox.SkillsDir)})
	}
	taken := pathsOf(t.Files, t.Repos)
	return slices.DeleteFunc(all, func(l Link) bool {
		return slices.ContainsFunc(taken, func(name string) bool { return inTheWay(name, l.Name) })
	})
}

// TrialID identifies a trial of a run.
type TrialID struct {
	Task   string
	Number int // starts at 1
}

func (id TrialID) String() string { return id.Task + "/" + strconv.Itoa(id.Number) }

// ID returns the trial's id in its run.
func (t *Trial) ID() TrialID { return TrialID{t.Task, t.Number} }

// Label returns a name for this attempt: TASK/N, or TASK/N/ATTEMPT from the second one.
func (t *Trial) Label() string {
	if t.Attempt > 1 {
		return t.ID().String() + "/" + strconv.Itoa(t.Attempt)
	}
	return t.ID().String()
}

// Roles of the containers of a sandbox.
const (
	RoleAgent   = "agent"
	RoleServer  = "server"
	RoleService = "service"
)

// NamedContainer is a container of a trial's own sandbox.
type NamedContainer struct {
	sandbox.Container
	Name     string   // [sandbox.Agent], the name of a server, or see [sandbox.ServiceName]
	Role     string   // such as RoleAgent
	Writable []string // directories of the size Disk, in addition to scratch and home
	Health   bool     // it is a service that its image's health check calls ready
}

// SandboxContainers returns the containers of the trial's own sandbox: the agent's, and those of
// the servers that live as long as the sandbox, each before those of its services.
func (t *Trial) SandboxContainers() []NamedContainer {
	var all []NamedContainer
	if !t.ServersOnly {
		agent := NamedContainer{Container: t.Agent.Container, Name: sandbox.Agent, Role: RoleAgent}
		if t.Workspace != WorkspaceVolume {
			agent.Writable = []string{sandbox.WorkspaceDir}
		}
		all = append(all, agent)
	}
	for _, server := range t.Servers {
		if server.Remote || server.Shared && !t.ServersOnly {
			continue
		}
		all = append(all, NamedContainer{Container: server.Container, Name: server.Name, Role: RoleServer, Writable: server.Writable})
		for _, service := range server.Services {
			all = append(all, NamedContainer{
				Container: service.Container, Name: sandbox.ServiceName(server.Name, service.Name),
				Role: RoleService, Writable: service.Writable, Health: service.Ready.Health,
			})
		}
	}
	return all
}

// Containers returns the containers that the trial uses: the agent's, and those of all servers,
// shared ones too, and of their services.
func (t *Trial) Containers() []sandbox.Container {
	all := []sandbox.Container{t.Agent.Container}
	for _, server := range t.Servers {
		all = append(all, server.Container)
		for _, service := range server.Services {
			all = append(all, service.Container)
		}
	}
	return all
}

// AllContainers returns all containers of the trial, including those of graders.
func (t *Trial) AllContainers() []sandbox.Container {
	all := t.Containers()
	for _, g := range t.GraderContainers {
		all = append(all, g.Container)
	}
	return all
}

// Build is an image that has to be built.
type Build struct {
	images.Buildable
	Image string // its reference
	Who   string // whose image it is, for messages
}

// Builds returns the images of the agent and the servers that are built from packages or source.
func (t *Trial) Builds() []Build {
	var all []Build
	if t.Agent.Build != nil {
		all = append(all, Build{*t.Agent.Build, t.Agent.Image, "agent"})
	}
	for _, s := range t.Servers {
		who := fmt.Sprintf("server %q", s.Name)
		switch {
		case s.Build != nil:
			all = append(all, Build{*s.Build, s.Image, who})
		case s.Source != nil:
			all = append(all, Build{s.Source, s.Image, who})
		}
	}
	return all
}

// JSON returns the plan as in trial.json.
func (t *Trial) JSON() json.RawMessage {
	data, err := json.Marshal(t)
	if err != nil { // plain data always marshals
		return json.RawMessage(`{}`)
	}
	return data
}

// File is a file of a container. Its JSON has only the name and size.
type File struct{ eval.WorkspaceFile }

// MarshalJSON implements json.Marshaler. It leaves out the content.
func (f File) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Path       string `json:"path"`
		Size       int64  `json:"size"`
		Executable bool   `json:"executable,omitempty"`
	}{f.Path, f.Size(), f.Executable()})
}

// NewFile returns a file with the given content.
func NewFile(path, content string) File {
	return File{eval.WorkspaceFile{Path: path, Content: []byte(content)}}
}

// Hooks are commands that run before the agent starts and after it has ended, in its container
// or on the host; or before the first trial of a run and after the last.
type Hooks struct {
	Before []eval.Hook `json:"before,omitempty"`
	After  []eval.Hook `json:"after,omitempty"`
}

// planHooks returns the hooks of each trial. They include the run's hooks, since each trial has
// its own sandbox, except those on the host.
func planHooks(h *eval.Hooks) Hooks {
	if h == nil {
		return Hooks{}
	}
	return Hooks{Before: slices.Concat(hooksOn(h.BeforeRun, false), h.BeforeTask), After: slices.Concat(h.AfterTask, hooksOn(h.AfterRun, false))}
}

// RunHooks returns the run's hooks on the host.
func RunHooks(h *eval.Hooks) Hooks {
	if h == nil {
		return Hooks{}
	}
	return Hooks{Before: hooksOn(h.BeforeRun, true), After: hooksOn(h.AfterRun, true)}
}

func hooksOn(all []eval.Hook, host bool) []eval.Hook {
	return slices.DeleteFunc(slices.Clone(all), func(h eval.Hook) bool { return h.Host != host })
}

// OnHost reports whether a hook runs on the host.
func (h Hooks) OnHost() bool {
	return slices.ContainsFunc(slices.Concat(h.Before, h.After), func(h eval.Hook) bool { return h.Host })
}
