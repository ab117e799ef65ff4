package containers

import (
	"fmt"
	"slices"
	"strings"

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
	g := evidence.Guarantees{
		Backend: "docker",
		Network: t.Network,
		Enforced: []string{
			"every server in a container of its own without a network interface",
			"names resolve inside the trial only",
			"containers run without root, capabilities or new privileges, on a read-only root",
			"containers end with the runner",
		},
	}
	if slices.ContainsFunc(t.Servers, func(server plan.Server) bool { return len(server.Services) > 0 }) {
		g.Enforced = append(g.Enforced, "every service in a container of its own without a network interface, within reach of its server alone")
	}
	if ownKernel(t.Runtime) {
		g.Missing = append(g.Missing, "the seccomp filter of containers could not be seen under the runtime "+t.Runtime)
	} else {
		g.Enforced = append(g.Enforced, "containers run under a seccomp filter")
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
	g.Missing = append(g.Missing, guests.Unseen(seen)...)
	slices.Sort(g.Enforced)
	slices.Sort(g.Missing)
	return g
}

// guaranteesOfAgent adds what is enforced of the agent's container.
func (p trialPlan) guaranteesOfAgent(g *evidence.Guarantees) {
	g.Enforced = append(g.Enforced, "the agent reaches its servers through the runner alone")
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
		if c.insists == "" {
			continue
		}
		own = false
		why := fmt.Sprintf("%s runs as the user that %s names: what the kernel counts by user it shares with other containers of that user", c.container, c.insists)
		if strings.HasSuffix(c.conf.User, ":0") {
			why += ", and it is in the group of root"
		}
		g.Missing = append(g.Missing, why)
	}
	if own {
		g.Enforced = append(g.Enforced, "every container runs as a user that no other container has")
	}
}
