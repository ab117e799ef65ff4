package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/mcpconfig"
)

// PlanInspections decides how servers are started to be looked at, each in a sandbox of
// its own without an agent, in the order of names. They are those of an eval, as its
// tasks would have them without changes of their own. It starts nothing.
func PlanInspections(e *eval.Eval, names []string, c Choices) ([]*Trial, error) {
	if c.Lookup == nil || c.Secrets == nil {
		return nil, errors.New("plan: incomplete choices")
	}
	limits, err := planEgressLimits(e.Config.Isolation.EgressLimits)
	if err != nil {
		return nil, err
	}
	var plans []*Trial
	var errs []error
	for _, name := range names {
		server, err := planServer(e, name, *e.Config.MCPServers[name], c)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		server.Shared = false
		t := &Trial{
			Run: c.Run, Task: name, TaskName: "inspect " + name, Number: 1,
			Network: "airtight", Runtime: e.Config.Isolation.Runtime, Workspace: "tmpfs",
			ServersOnly: true, Servers: []Server{server}, EgressLimits: limits,
		}
		if server.Remote {
			t.Network, t.Runtime, t.Workspace, t.EgressLimits = NetworkNone, "", "", egress.Limits{}
		}
		plans = append(plans, t)
	}
	return plans, errors.Join(errs...)
}

// Uninstalled are the servers of an eval as tasks that use one each, for [Packages].
func Uninstalled(e *eval.Eval, names []string) []eval.ResolvedTask {
	var tasks []eval.ResolvedTask
	for _, name := range names {
		tasks = append(tasks, eval.ResolvedTask{ID: name, Servers: map[string]mcpconfig.Server{name: *e.Config.MCPServers[name]}})
	}
	return tasks
}

// CheckInspected holds that a plan is one of [PlanInspections].
func (t *Trial) CheckInspected() error {
	if !t.ServersOnly || len(t.Servers) != 1 || slices.ContainsFunc(t.Servers, func(s Server) bool { return s.Shared }) {
		return fmt.Errorf("runner: trial %s is no inspection", t.Task)
	}
	return nil
}
