package containers

import (
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox/guests"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// ownKernel reports whether containers of a runtime may have their own kernel.
func ownKernel(runtime string) bool { return runtime != "" && runtime != "runc" }

// guarantees returns what is enforced in a trial's containers, given the limits that the engine
// supports. Each line was checked from inside the containers when they started, or is one of
// the engine's limits. seen is the resource usage that each container's guest can measure; nil
// for none.
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

// guaranteesOfAgent adds guarantees of the agent's container.
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

// guaranteesOfUsers adds whether every container has its own user.
func (p trialPlan) guaranteesOfUsers(g *evidence.Guarantees) {
	own := true
	for _, c := range p.containers {
		if c.requiredBy != "" {
			own = false
			g.Missing = append(g.Missing, guests.SharedUser(c.container, c.conf.User, c.requiredBy))
		}
	}
	if own {
		g.Enforced = append(g.Enforced, "every container runs as a user that no other container has")
	}
}
