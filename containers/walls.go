package containers

import (
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox/guests"
)

// ownKernel reports whether containers of a runtime may have their own kernel.
func ownKernel(runtime string) bool { return runtime != "" && runtime != "runc" }

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
			g.Missing = append(g.Missing, guests.SharedUser(c.Name, c.conf.User, c.requiredBy))
		}
	}
	if own {
		g.Enforced = append(g.Enforced, "every container runs as a user that no other container has")
	}
}
