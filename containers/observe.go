package containers

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// sharedMemory is a directory that every container can write to.
const sharedMemory = "/dev/shm"

// observeTimeout bounds asking a guest that looks through the files of its container.
const observeTimeout = 10 * time.Second

var _ sandbox.Observer = (*trialSandbox)(nil)

// Observe implements sandbox.Observer.
func (s *trialSandbox) Observe(ctx context.Context, name string) (observe.Seen, error) {
	b, err := s.container(name)
	if err != nil {
		return observe.Seen{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	return b.guest.Observe(ctx)
}

// writableDirs are the places that programs of a container can write to.
func writableDirs(c containerPlan) []string {
	return append(slices.Sorted(maps.Keys(c.host.Tmpfs)), sharedMemory)
}
