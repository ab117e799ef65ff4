package plan

import (
	"fmt"
	"slices"

	"github.com/waza-isolate/waza/eval"
)

// notEnforced names what of an eval's config processes do not have.
func notEnforced(c eval.Config) []string {
	var names []string
	iso := c.Isolation
	for _, key := range []struct {
		name string
		set  bool
	}{
		{"network", iso.Network != ""}, {"image", iso.Image != ""}, {"pull", iso.Pull != ""}, {"npm_image", iso.NPMImage != ""}, {"pypi_image", iso.PyPIImage != ""}, {"server_image", iso.ServerImage != ""}, {"runtime", iso.Runtime != ""},
		{"subnets", iso.Subnets != ""}, {"pins", iso.Pins != ""}, {"workspace", iso.Workspace != ""},
		{"agent.image", iso.Agent.Image != ""}, {"agent.user", iso.Agent.User != ""}, {"agent.cpus", iso.Agent.CPUs != 0},
		{"agent.memory", iso.Agent.Memory != ""}, {"agent.pids", iso.Agent.Pids != 0}, {"agent.disk", iso.Agent.Disk != ""},
		{"agent.scratch", iso.Agent.Scratch != ""}, {"agent.open_files", iso.Agent.OpenFiles != 0},
		{"agent.egress", iso.Agent.Egress != nil}, {"egress_limits", iso.EgressLimits != eval.EgressLimits{}},
	} {
		if key.set {
			names = append(names, "config.isolation."+key.name)
		}
	}
	if len(c.Canaries) > 0 {
		names = append(names, "config.canaries in DNS names and egress")
	}
	return names
}

// notEnforcedOf names what of a server processes do not have.
func notEnforcedOf(s Server) (names []string) {
	if s.Config.Image != "" {
		names = append(names, fmt.Sprintf("image of server %q", s.Name))
	}
	if s.Config.Egress != nil {
		names = append(names, fmt.Sprintf("egress of server %q", s.Name))
	}
	return names
}

// NotEnforced names, once each, what the trials' eval asks for and processes do
// not have.
func NotEnforced(trials []*Trial) []string {
	var names []string
	for _, t := range trials {
		for _, name := range t.NotEnforced {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
