package sandbox

import (
	"context"
	"errors"

	"github.com/waza-isolate/waza/sandbox/process"
)

// What goes wrong with a backend, which opens sandboxes.
var (
	// ErrEngineGone says that what a backend is on went away, or does not answer.
	ErrEngineGone = errors.New("the engine went away")
	// ErrAlive says that another process is at work on a run.
	ErrAlive = errors.New("the run is still at work")
)

// Reconnector is a backend on something that can go away and come back.
type Reconnector interface {
	// Reconnect returns once sandboxes can be opened, or with ctx and then says why
	// they cannot.
	Reconnect(ctx context.Context) error
}

// HostProber is a backend that can look at its sandboxes from the machine they are on.
type HostProber interface {
	// HostProbe puts a container of ours onto the network of the machine that the
	// sandboxes are on, with all other walls of a sandbox's containers.
	HostProbe(ctx context.Context) (HostProbe, error)
	// Describe names everything of the engine and of our own build that walls may
	// depend on.
	Describe() map[string]string
}

// HostProbe runs programs beside the sandboxes. It ends with the runner.
type HostProbe interface {
	Start(ctx context.Context, p process.Spec) (process.Process, error)
	Close(ctx context.Context) error
}
