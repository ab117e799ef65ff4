package runner

import (
	"context"

	"github.com/waza-isolate/waza/sandbox/process"
)

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
