package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// Spec returns the sandbox of the trial: its agent, and the servers that live as long as the trial,
// each before its services.
func (t *Trial) Spec() *sandbox.Spec {
	s := &sandbox.Spec{
		Run: t.Run, Task: t.Task, Number: t.Number, Attempt: t.Attempt,
		Network: t.Network, Subnets: t.Subnets, Runtime: t.Runtime,
	}
	agent := sandbox.AgentContainer(t.Agent.Container, t.Workspace, t.MCPJSON)
	agent.Outside = egress.Names(t.Agent.Egress)
	agent.Build = buildOf(t.Agent.Build, nil)
	agent.Program = knownProgram(t.Agent.Command)
	for _, name := range slices.Sorted(maps.Keys(t.Agent.Env)) {
		agent.Program.Env = append(agent.Program.Env, name+"="+t.Agent.Env[name])
	}
	if t.Agent.Adapted != nil {
		agent.Product = t.Agent.Adapted.Title
	}
	s.Containers = append(s.Containers, agent)
	for _, server := range t.Servers {
		s.Reach = append(s.Reach, sandbox.Edge{From: sandbox.Agent, Name: server.Host(), To: server.Name})
	}
	if t.AsksRunner() {
		s.Reach = append(s.Reach, sandbox.Edge{From: sandbox.Agent, Name: sandbox.ModelHost, To: sandbox.ModelHost})
	}
	for _, server := range t.Servers {
		s.Reach = append(s.Reach, server.edges()...)
		if !server.Shared {
			s.Containers = append(s.Containers, server.containers()...)
		}
	}
	return s
}

// ServerSpec returns the sandbox of a single server without an agent: one that the run shares, or
// one that is inspected.
func (t *Trial) ServerSpec(server Server, name string, number int, life sandbox.Lifetime) *sandbox.Spec {
	return &sandbox.Spec{
		Run: t.Run, Task: name, Number: number, Lifetime: life, Network: t.airtight(), Runtime: t.Runtime,
		Containers: server.containers(), Reach: server.edges(),
	}
}

// ProgramSpec returns the sandbox of a grader's program, which contains nothing else of the trial.
// task is the trial's task, or a checkpoint of it. The sandbox's name ends in a dot, so it differs
// from the name of any task.
func (t *Trial) ProgramSpec(task string, number int, g GraderContainer) *sandbox.Spec {
	s := &sandbox.Spec{
		Run: t.Run, Task: fmt.Sprintf("%s.grader%d.", task, number), Number: t.Number, Attempt: t.Attempt,
		Network: t.airtight(), Runtime: t.Runtime,
	}
	if !defence.NoNetworkForPrograms {
		s.Network = sandbox.NetworkBridge
	}
	program := sandbox.AgentContainer(g.Container, t.Workspace, string(mcpconfig.Render(nil)))
	program.Who, program.Program = fmt.Sprintf("grader %q", g.Grader), knownProgram(g.Command)
	program.Build = buildOf(nil, g.Source)
	if g.Source == nil && g.Image != "" && g.Image == t.Agent.Image {
		program.Build = buildOf(t.Agent.Build, nil)
	}
	s.Containers = []sandbox.ContainerSpec{program}
	return s
}

// Specs returns the sandboxes that trials need, without those that differ only in their number.
func Specs(trials []*Trial) []*sandbox.Spec {
	var all []*sandbox.Spec
	known := map[string]bool{}
	for _, t := range trials {
		if known[t.Task] {
			continue
		}
		known[t.Task] = true
		all = append(all, t.specs()...)
	}
	return all
}

// specs returns all sandboxes that the trial needs.
func (t *Trial) specs() []*sandbox.Spec {
	all := []*sandbox.Spec{t.Spec()}
	for _, s := range t.Servers {
		if s.Shared {
			all = append(all, t.ServerSpec(s, s.Name, 1, sandbox.LifeOfRun))
		}
	}
	for i, g := range t.GraderContainers {
		all = append(all, t.ProgramSpec(t.Task, i+1, g))
	}
	return all
}

// containers returns the containers of all sandboxes that the trial needs.
func (t *Trial) containers() (all []sandbox.ContainerSpec) {
	for _, s := range t.specs() {
		all = append(all, s.Containers...)
	}
	return all
}

// Kind returns the kind of the trial's sandbox, as in certificates.
func (t *Trial) Kind() evidence.SandboxKind {
	return evidence.SandboxKind{Network: t.Network, Subnets: t.Subnets, Runtime: t.Runtime, Workspace: t.Workspace}
}

// airtight returns the network of sandboxes that need none.
func (t *Trial) airtight() string {
	if t.Isolated() {
		return sandbox.NetworkAirtight
	}
	return sandbox.NetworkNone
}

// knownProgram returns what is known of a program before its sandbox is open. A program that is
// named by a path is unknown, because it may be in the workspace.
func knownProgram(command []string) process.Spec {
	if len(command) == 0 || strings.Contains(command[0], "/") {
		return process.Spec{}
	}
	return process.Spec{Args: command[:1]}
}

// containers returns the server's container and those of its services; none if the server is not
// run here.
func (s Server) containers() []sandbox.ContainerSpec {
	if s.Remote {
		return nil
	}
	own := sandbox.ContainerSpec{
		Container: s.Container, Name: s.Name, Role: sandbox.RoleServer, Who: fmt.Sprintf("server %q", s.Name),
		Writable: s.Writable, Outside: egress.Names(s.Egress), Build: buildOf(s.Build, s.Source), Program: s.Program(),
	}
	all := []sandbox.ContainerSpec{own}
	for _, service := range s.Services {
		all = append(all, sandbox.ContainerSpec{
			Container: service.Container, Name: sandbox.ServiceName(s.Name, service.Name), Role: sandbox.RoleService,
			Who: fmt.Sprintf("service %q of server %q", service.Name, s.Name), Writable: service.Writable, Build: buildOf(nil, service.Source),
		})
	}
	return all
}

// edges returns what the server's programs may reach.
func (s Server) edges() []sandbox.Edge {
	var all []sandbox.Edge
	for _, service := range s.Services {
		all = append(all, sandbox.Edge{From: s.Name, Name: service.Name, To: sandbox.ServiceName(s.Name, service.Name), Ports: service.Ports})
	}
	return all
}

// buildOf returns what an image is built from: a package or a source, or nil if it is pulled.
func buildOf(i *images.Image, source *images.Source) images.Buildable {
	switch {
	case i != nil:
		return *i
	case source != nil:
		return source
	}
	return nil
}
