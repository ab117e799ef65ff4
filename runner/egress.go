package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/egress"
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

// describeEgress names what may be reached; empty for nothing.
func describeEgress(allowed []mcpconfig.Destination) string {
	texts := make([]string, len(allowed))
	for i, d := range allowed {
		texts[i] = d.String()
	}
	return strings.Join(texts, ", ")
}
