package plan

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// TestSpecs holds what sandboxes a trial has, with which containers, and who reaches whom.
func TestSpecs(t *testing.T) {
	t.Parallel()
	source := &images.Source{}
	trial := &Trial{
		Run: "r", Task: "t", Number: 2, Attempt: 3, Network: sandbox.NetworkBridge, Subnets: "10.0.0.0/16", Runtime: "runsc", Workspace: sandbox.WorkspaceVolume,
		MCPJSON: "{}", Models: &Models{},
		Agent: Agent{Container: sandbox.Container{Image: "agent:1"}, Command: []string{"/usr/bin/agent"}},
		Servers: []Server{
			{Name: "own", Container: sandbox.Container{Image: "own:1"}, Writable: []string{"/data"}, Expanded: mcpconfig.Server{Command: "serve", Args: []string{"all"}}},
			{Name: "all_day", Shared: true, Container: sandbox.Container{Image: "shared:1"}, Services: []Service{
				{Name: "db", Container: sandbox.Container{Image: "db:1"}, Source: source, Ports: []int{5432}},
			}},
			{Name: "far", Remote: true},
		},
		GraderContainers: []GraderContainer{{Container: sandbox.Container{Image: "check:1"}, Grader: "g", Command: []string{"check", "it"}, Source: source}},
	}
	db := sandbox.Edge{From: "all_day", Name: "db", To: "all_day/db", Ports: []int{5432}}
	want := []*sandbox.Spec{
		{
			Run: "r", Task: "t", Number: 2, Attempt: 3, Network: sandbox.NetworkBridge, Subnets: "10.0.0.0/16", Runtime: "runsc",
			Containers: []sandbox.ContainerSpec{
				{Container: sandbox.Container{Image: "agent:1"}, Name: sandbox.Agent, Role: sandbox.RoleAgent, Who: "agent", Volume: sandbox.WorkspaceDir, MCPConfig: "{}"},
				{
					Container: sandbox.Container{Image: "own:1"}, Name: "own", Role: sandbox.RoleServer, Who: `server "own"`, Writable: []string{"/data"},
					Program: process.Spec{Args: []string{"serve", "all"}},
				},
			},
			Reach: []sandbox.Edge{
				{From: sandbox.Agent, Name: "own", To: "own"}, {From: sandbox.Agent, Name: mcpconfig.HostName("all_day"), To: "all_day"}, {From: sandbox.Agent, Name: "far", To: "far"},
				{From: sandbox.Agent, Name: sandbox.ModelHost, To: sandbox.ModelHost}, db,
			},
		},
		{
			Run: "r", Task: "all_day", Number: 1, Lifetime: sandbox.LifeOfRun, Network: sandbox.NetworkAirtight, Runtime: "runsc",
			Containers: []sandbox.ContainerSpec{
				{Container: sandbox.Container{Image: "shared:1"}, Name: "all_day", Role: sandbox.RoleServer, Who: `server "all_day"`, Program: process.Spec{OfImage: true}},
				{Container: sandbox.Container{Image: "db:1"}, Name: "all_day/db", Role: sandbox.RoleService, Who: `service "db" of server "all_day"`, Build: source},
			},
			Reach: []sandbox.Edge{db},
		},
		{
			Run: "r", Task: "t.grader1.", Number: 2, Attempt: 3, Network: sandbox.NetworkAirtight, Runtime: "runsc",
			Containers: []sandbox.ContainerSpec{{
				Container: sandbox.Container{Image: "check:1"}, Name: sandbox.Agent, Role: sandbox.RoleAgent, Who: `grader "g"`, Volume: sandbox.WorkspaceDir,
				MCPConfig: string(mcpconfig.Render(nil)), Build: source, Program: process.Spec{Args: []string{"check"}},
			}},
		},
	}
	same := cmp.Options{cmpopts.EquateEmpty(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b *images.Source) bool { return a == b })}
	again := *trial
	again.Number++
	if diff := cmp.Diff(want, Specs([]*Trial{trial, &again}), same); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	trial.Network = sandbox.NetworkNone
	if got := trial.ProgramSpec("t", 1, trial.GraderContainers[0]).Network; got != sandbox.NetworkNone {
		t.Errorf("a program without isolation has the network %s", got)
	}
}
