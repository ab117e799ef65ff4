package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
)

// openOutlet lets the programs of a box reach what the eval allows; nil where that is
// nothing. It lasts until its Close.
func openOutlet(ctx context.Context, sb sandbox.Sandbox, box string, allowed []mcpconfig.Destination, limits egress.Limits, rec overseer) (*egress.Carrier, error) {
	if len(allowed) == 0 {
		return nil, nil
	}
	outlet, ok := sb.(sandbox.Outlet)
	if !ok {
		return nil, errors.New("egress cannot be had of this backend; run with --isolate")
	}
	carrier, err := egress.New(egress.Options{
		Box: box, Allowed: allowed, Limits: limits, Record: rec.Event, Named: rec.Named, Tap: rec.Tap,
	})
	if err != nil {
		return nil, err
	}
	for _, place := range egress.Places(allowed) {
		ln, err := outlet.ListenAt(ctx, box, place.At)
		if err != nil {
			carrier.Close()
			return nil, fmt.Errorf("egress at %s of its container: %w", place.At, err)
		}
		carrier.Serve(ln, place)
	}
	return carrier, nil
}

// openAgentOutlet lets the agent reach what the eval allows it, until drain.
func (tr *trialRun) openAgentOutlet(ctx context.Context) (err error) {
	tr.outlet, err = openOutlet(ctx, tr.sandbox, sandbox.Agent, tr.plan.Agent.Egress, tr.plan.EgressLimits, tr.observer())
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	return nil
}

// closeAgentOutlet ends what the agent has under way outside. It may be called twice.
func (tr *trialRun) closeAgentOutlet() {
	if tr.outlet != nil {
		tr.outlet.Close()
	}
}

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

// serviceNames are the names that a server's box has itself.
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
	config := s.expanded
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
	for _, box := range t.outgoing() {
		for _, d := range box.allowed {
			if slices.Contains(own, d.Name) {
				return fmt.Errorf("egress of %s: %q is a server of this trial; choose another name, with address", box.who, d.Name)
			}
		}
	}
	return nil
}

// outgoing is a box that may reach something, by the name that people know it by.
type outgoing struct {
	who     string
	allowed []mcpconfig.Destination
}

func (t *Trial) outgoing() []outgoing {
	boxes := []outgoing{{"the agent", t.Agent.Egress}}
	for _, s := range t.Servers {
		boxes = append(boxes, outgoing{fmt.Sprintf("server %q", s.Name), s.Egress})
	}
	return slices.DeleteFunc(boxes, func(o outgoing) bool { return len(o.allowed) == 0 })
}

// describeEgress names what may be reached; empty for nothing.
func describeEgress(allowed []mcpconfig.Destination) string {
	texts := make([]string, len(allowed))
	for i, d := range allowed {
		texts[i] = d.String()
	}
	return strings.Join(texts, ", ")
}
