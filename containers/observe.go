package containers

import (
	"context"
	"time"

	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/observe"
)

// sharedMemory is a directory that every container can write to.
const sharedMemory = "/dev/shm"

// observeTimeout bounds asking a guest that looks through the files of its container.
const observeTimeout = 10 * time.Second

var _ runner.Observer = (*sandbox)(nil)

// Observe implements runner.Observer.
func (s *sandbox) Observe(ctx context.Context, name string) (observe.Seen, error) {
	b, err := s.box(name)
	if err != nil {
		return observe.Seen{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	return b.guest.Observe(ctx)
}

// writable are the places that programs of the box can write to.
func (b *box) writable() []string { return append([]string{sharedMemory}, b.meter.dirs...) }
