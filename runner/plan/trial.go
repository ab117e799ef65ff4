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
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/cmdmock"
	"github.com/waza-isolate/waza/sandbox"
)

// Trial is the plan of one trial: plain data, decided before anything starts. Its JSON holds
// no values of variables except in images, platforms, users, writable directories and hosts
// that may be reached.
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
	// Kubernetes is the cluster that the trial runs on; nil where it does not. ImagesFile says where
	// that has the images.
	Kubernetes *eval.Kubernetes `json:"kubernetes,omitempty"`
	ImagesFile string           `json:"-"`
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

// NetworkNone is the network of a trial on processes, which have the machine's:
// nothing of it is isolated.
const NetworkNone = "none"

// Isolated reports whether the trial is planned for containers.
func (t *Trial) Isolated() bool { return t.Network != NetworkNone }

// AsksRunner reports whether the agent finds something at [sandbox.ModelHost]: its models, or
// who plays its commands.
func (t *Trial) AsksRunner() bool { return t.Models != nil || len(t.Commands) > 0 }

// TakesTurns reports whether something happens between two prompts of the agent.
func (t *Trial) TakesTurns() bool {
	return len(t.Agent.FollowUps)+len(t.Checkpoints) > 0 || t.Agent.Responder != nil
}

// UnderAttack reports whether something is injected.
func (t *Trial) UnderAttack() bool { return t.Attack != nil && !t.Attack.Withheld }

// AllGraders are the trial's and those of its attack's success.
func (t *Trial) AllGraders() []evidence.GraderSpec {
	return evidence.Trial{Graders: t.Graders, Attack: t.Attack}.AllGraders()
}

// GraderContainerOf is the container of a grader of the trial's own.
func (t *Trial) GraderContainerOf(grader string) (GraderContainer, bool) {
	i := slices.IndexFunc(t.GraderContainers, func(b GraderContainer) bool { return b.Grader == grader && b.Turn == 0 })
	if i < 0 {
		return GraderContainer{}, false
	}
	return t.GraderContainers[i], true
}

// agentNames are the host names of the trial itself.
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

// outgoing is a container that may reach something, by the name that people know it by.
type outgoing struct {
	Who     string
	Allowed []mcpconfig.Destination
}

// Outgoing are the containers of the trial that may reach something.
func (t *Trial) Outgoing() []outgoing {
	containers := []outgoing{{"the agent", t.Agent.Egress}}
	for _, s := range t.Servers {
		containers = append(containers, outgoing{fmt.Sprintf("server %q", s.Name), s.Egress})
	}
	return slices.DeleteFunc(containers, func(o outgoing) bool { return len(o.Allowed) == 0 })
}

// Link is a link of ours in the workspace.
type Link struct{ Name, Target string }

// Links are those of the trial, in a container of a layout, except for places where something of the
// workspace stands or is in the way.
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
	Number int // from 1
}

func (id TrialID) String() string { return id.Task + "/" + strconv.Itoa(id.Number) }

// ID identifies the trial in its run.
func (t *Trial) ID() TrialID { return TrialID{t.Task, t.Number} }

// Label names this attempt at the trial: TASK/N, and TASK/N/ATTEMPT from the second on.
func (t *Trial) Label() string {
	if t.Attempt > 1 {
		return t.ID().String() + "/" + strconv.Itoa(t.Attempt)
	}
	return t.ID().String()
}

// Containers returns the containers of the trial's sandbox: the agent's, and those of servers and
// their services.
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

// AllContainers returns every container that the trial plans: also those of its graders.
func (t *Trial) AllContainers() []sandbox.Container {
	all := t.Containers()
	for _, g := range t.GraderContainers {
		all = append(all, g.Container)
	}
	return all
}

// JSON is the plan as trial.json keeps it.
func (t *Trial) JSON() json.RawMessage {
	data, err := json.Marshal(t)
	if err != nil { // plain data always marshals
		return json.RawMessage(`{}`)
	}
	return data
}

// File is one file of a container. JSON has its name and size alone.
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

// Hooks are commands that run in the agent's container, or on the host, before the agent starts and
// after it ended; or those of a run, before its first trial and after its last.
type Hooks struct {
	Before []eval.Hook `json:"before,omitempty"`
	After  []eval.Hook `json:"after,omitempty"`
}

// planHooks gives each trial the hooks of the run too: it has a sandbox of its own. Those of the
// run on the host are not a trial's.
func planHooks(h *eval.Hooks) *Hooks {
	if h == nil {
		return nil
	}
	planned := &Hooks{Before: slices.Concat(hooksOn(h.BeforeRun, false), h.BeforeTask), After: slices.Concat(h.AfterTask, hooksOn(h.AfterRun, false))}
	if len(planned.Before)+len(planned.After) == 0 {
		return nil
	}
	return planned
}

// RunHooks are those of the run on the host.
func RunHooks(h *eval.Hooks) Hooks {
	if h == nil {
		return Hooks{}
	}
	return Hooks{Before: hooksOn(h.BeforeRun, true), After: hooksOn(h.AfterRun, true)}
}

func hooksOn(all []eval.Hook, host bool) []eval.Hook {
	return slices.DeleteFunc(slices.Clone(all), func(h eval.Hook) bool { return h.Host != host })
}

// OnHost reports whether one of them runs on the host.
func (h *Hooks) OnHost() bool {
	return h != nil && len(hooksOn(h.Before, true))+len(hooksOn(h.After, true)) > 0
}
