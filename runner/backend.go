package runner

import (
	"context"
	"errors"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// Backend opens sandboxes. On error nothing is left behind.
type Backend interface {
	// Open makes a trial's network and boxes and returns when process 1 of each
	// answers. Happenings inside go to observe until Close returns.
	Open(ctx context.Context, t *plan.Trial, observe func(evidence.Event)) (sandbox.Sandbox, error)
}

// ErrEngineGone says that what a [Backend] is on went away, or does not answer.
var ErrEngineGone = errors.New("the engine went away")

// Recoverer is a [Backend] on something that can go away and come back.
type Recoverer interface {
	// Recover returns once sandboxes can be opened, or with ctx and then says why
	// they cannot.
	Recover(ctx context.Context) error
}

// Scout is a [Backend] that can look at its sandboxes from the machine they are on.
type Scout interface {
	Backend
	// Outpost puts a box of our own onto the network of the machine that the
	// sandboxes are on, with all other walls of a sandbox's boxes.
	Outpost(ctx context.Context) (Outpost, error)
	// Describe names everything of the engine and of our own build that walls may
	// depend on.
	Describe() map[string]string
}

// Outpost runs programs beside the sandboxes. It ends with the runner.
type Outpost interface {
	Start(ctx context.Context, p process.Spec) (process.Process, error)
	Close(ctx context.Context) error
}
