package local

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/waza-isolate/waza/evidence"
)

// errUnseen says that nothing is known of what programs used.
var errUnseen = errors.New("what processes of the machine use is known once they have ended")

// spent counts what a program used that has ended; nil is one of which that is not
// known.
func (s *trialSandbox) spent(container string, state *os.ProcessState) {
	if state == nil {
		return
	}
	s.usedMu.Lock()
	defer s.usedMu.Unlock()
	s.used[container] += state.UserTime() + state.SystemTime()
}

// Usage implements sandbox.Sandbox. A process tells its time alone: no peak of one
// is that of all of a container.
func (s *trialSandbox) Usage(_ context.Context, container string) (evidence.Usage, error) {
	s.usedMu.Lock()
	defer s.usedMu.Unlock()
	spent, known := s.used[container]
	if !known {
		return evidence.Usage{}, errUnseen
	}
	seconds := float64(spent) / float64(time.Second)
	return evidence.Usage{CPU: &seconds}, nil
}
