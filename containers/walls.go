package containers

import (
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox/guests"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// ownKernel reports whether a runtime differs from the engine's usual one. Its containers
// may have a kernel between themselves and the host's.
func ownKernel(runtime string) bool { return runtime != "" && runtime != "runc" }

// guarantees returns what is enforced in a trial's containers on an engine with the limits
// given. Each line was checked from inside the containers when they started, or is the
// engine's own limit. Seen is what each container's guest can see of its use; nil for
// nothing.
func guarantees(t *plan.Trial, p trialPlan, limits map[string]bool, seen []*observe.Usage) evidence.Guarantees {
	runtime := ""
	if ownKernel(t.Runtime) {
		runtime = "runtime " + t.Runtime
	}
	g := guests.Guarantees(t, "docker", runtime, seen)
	g.Enforced = append(g.Enforced, "every server in a container of its own without a network interface")
	if slices.ContainsFunc(t.Servers, func(server plan.Server) bool { return len(server.Services) > 0 }) {
		g.Enforced = append(g.Enforced, "every service in a container of its own without a network interface, within reach of its server alone")
	}
	for limit, enforced := range limits {
		if enforced {
			g.Enforced = append(g.Enforced, limit+" of every container is limited")
		} else {
			g.Missing = append(g.Missing, limit+" of containers is not limited: the engine's kernel cannot")
		}
	}
	if !t.ServersOnly {
		p.guaranteesOfAgent(&g)
	}
	p.guaranteesOfUsers(&g)
	slices.Sort(g.Enforced)
	slices.Sort(g.Missing)
	return g
}

// guaranteesOfAgent adds what is enforced of the agent's container.
func (p trialPlan) guaranteesOfAgent(g *evidence.Guarantees) {
	if p.network == "" {
		g.Enforced = append(g.Enforced, "the agent's container has no network interface")
	} else {
		g.Enforced = append(g.Enforced, "the agent's network holds nobody else, carries TCP only and has no address on the host")
	}
	if p.workspace == "" {
		g.Enforced = append(g.Enforced, "the workspace has a hard size limit")
	} else {
		g.Missing = append(g.Missing, "the workspace is a volume: its size is not limited")
	}
}

// guaranteesOfUsers adds whether each container has a user of its own.
func (p trialPlan) guaranteesOfUsers(g *evidence.Guarantees) {
	own := true
	for _, c := range p.containers {
		if c.insists != "" {
			own = false
			g.Missing = append(g.Missing, guests.SharedUser(c.container, c.conf.User, c.insists))
		}
	}
	if own {
		g.Enforced = append(g.Enforced, "every container runs as a user that no other container has")
	}
}
