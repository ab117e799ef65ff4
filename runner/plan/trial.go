package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/mcp/answer"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/kube"
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
	// Judged has the judge's answers from a cassette; nil if the judge is asked.
	Judged *cassette.Side `json:"-"`
	// GraderContainers are the containers of graders that run a program.
	GraderContainers []GraderContainer `json:"grader_containers,omitempty"`
	// Models are the models that the agent may ask; may be nil.
	Models *Models `json:"models,omitempty"`
	// EgressLimits apply to each container with egress.
	EgressLimits egress.Limits `json:"egress_limits,omitzero"`
	// Kubernetes is the cluster that the trial runs on, or nil. ImagesFile is the path of the
	// list of images in the cluster.
	Kubernetes *kube.Settings `json:"kubernetes,omitempty"`
	ImagesFile string         `json:"-"`
	// NotEnforced are settings of the eval that have no effect because nothing is isolated.
	NotEnforced []string `json:"not_enforced,omitempty"`

	Canaries []evidence.Canary    `json:"canaries,omitempty"`
	Attack   *evidence.TaskAttack `json:"attack,omitempty"`
	Hooks    Hooks                `json:"hooks,omitzero"`

	Checkpoints []eval.ResolvedCheckpoint `json:"checkpoints,omitempty"`
	Faults      []cassette.Fault          `json:"faults,omitempty"`
	Commands    []eval.CommandMock        `json:"command_mocks,omitempty"` // mocked in the agent's container
	Answers     answer.Table              `json:"answers,omitempty"`       // to requests of servers
	// Trigger is set for trigger tests, which are run once.
	Trigger bool `json:"trigger_test,omitempty"`
}

// Isolated reports whether the trial runs in containers.
func (t *Trial) Isolated() bool { return t.Network != sandbox.NetworkNone }

// AsksRunner reports whether the agent connects to [sandbox.ModelHost], for models, mocked commands
// or answers to servers.
func (t *Trial) AsksRunner() bool { return t.Models != nil || len(t.Commands)+len(t.Answers) > 0 }

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

// ID returns the trial's id in its run.
func (t *Trial) ID() evidence.TrialID { return evidence.TrialID{Task: t.Task, Number: t.Number} }

// GivenFiles returns the files that the containers of the trial are given.
func (t *Trial) GivenFiles() []File {
	all := slices.Clone(t.Files)
	for _, s := range t.Skills {
		all = append(all, s.Files...)
	}
	for _, s := range t.Servers {
		all = append(all, s.Files...)
		for _, service := range s.Services {
			all = append(all, service.Files...)
		}
	}
	for _, g := range t.GraderContainers {
		all = append(all, g.Files...)
	}
	return all
}

// String returns the plan in a readable form: network, containers, images, limits and mcp.json.
// It contains no secrets.
func (t *Trial) String() string { return printed(t) }

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
