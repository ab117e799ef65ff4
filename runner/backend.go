package runner

import (
	"context"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// Backend opens sandboxes. On error nothing is left behind.
type Backend interface {
	// Open makes a trial's network and boxes and returns when process 1 of each
	// answers. Happenings inside go to observe until Close returns.
	Open(ctx context.Context, t *plan.Trial, observe func(evidence.Event)) (sandbox.Sandbox, error)
}
