package plan

import (
	"fmt"
	"slices"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// notEnforced names what of an eval's config processes do not have.
func notEnforced(c eval.Config) []string {
	var names []string
	for _, key := range strictyaml.Given(c.Isolation) {
		if key != "agent" && key != "mcp_json" {
			names = append(names, "config.isolation."+key)
		}
	}
	for _, key := range strictyaml.Given(c.Isolation.Agent) {
		if !slices.Contains([]string{"env", "workdir", "max_output", "max_calls"}, key) {
			names = append(names, "config.isolation.agent."+key)
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
