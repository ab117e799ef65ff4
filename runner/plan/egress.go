package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
)

// agentNames are the names that the agent's trial has itself.
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

// serviceNames are the names that a server's container has itself.
func (s Server) serviceNames() []string {
	names := []string{s.Host()}
	for _, service := range s.Services {
		names = append(names, service.Name)
	}
	return names
}

// toldOfProxy is the server's configuration with what its programs find of egress in
// their environment, where it does not set that itself.
func (s Server) toldOfProxy() mcpconfig.Server {
	config := s.Expanded
	if env := egress.Env(s.Egress, s.serviceNames()); env != nil {
		maps.Copy(env, config.Env)
		config.Env = env
	}
	return config
}

// readEgress is what entries come to, once their variables are expanded.
func readEgress(entries []mcpconfig.Egress) ([]mcpconfig.Destination, error) {
	allowed, problems := mcpconfig.ReadEgress(entries)
	if len(problems) > 0 { // they were checked before
		return nil, fmt.Errorf("egress %s", problems[0].What)
	}
	return allowed, nil
}

func planEgressLimits(l eval.EgressLimits) (limits egress.Limits, err error) {
	limits = egress.Limits{Connections: l.Connections, Rate: l.Rate}
	if l.Bytes != "" {
		limits.Bytes, err = mcpconfig.ParseSize(l.Bytes)
	}
	return limits, err
}

// ownNames refuses egress to a name that the trial has itself.
func (t *Trial) ownNames() error {
	own := t.agentNames()
	for _, container := range t.Outgoing() {
		for _, d := range container.Allowed {
			if slices.Contains(own, d.Name) {
				return fmt.Errorf("egress of %s: %q is a server of this trial; choose another name, with address", container.Who, d.Name)
			}
		}
	}
	return nil
}

// outgoing is a container that may reach something, by the name that people know it by.
type outgoing struct {
	Who     string
	Allowed []mcpconfig.Destination
}

func (t *Trial) Outgoing() []outgoing {
	containers := []outgoing{{"the agent", t.Agent.Egress}}
	for _, s := range t.Servers {
		containers = append(containers, outgoing{fmt.Sprintf("server %q", s.Name), s.Egress})
	}
	return slices.DeleteFunc(containers, func(o outgoing) bool { return len(o.Allowed) == 0 })
}
