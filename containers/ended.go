package containers

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guest"
	"github.com/waza-isolate/waza/sandbox/guests"
)

// Ended implements sandbox.Sandbox. It goes by nothing that programs in the container can
// reach: the guard of the mux, the lease, which is a container on the same engine over the
// same connection, and the engine's word on who ended the container.
func (s *trialSandbox) Ended(ctx context.Context, name string) sandbox.Exit {
	c := s.containers[name]
	if c == nil {
		return sandbox.Exit{}
	}
	switch {
	case errors.Is(c.guest.Err(), guest.ErrProtocol):
	case c.answers(ctx) != nil:
	case name == sandbox.Agent && s.network.lost(ctx, c.id):
		s.cut()
	default:
		return sandbox.Exit{}
	}
	if exit, is := guests.Breach(c.guest); is {
		return exit
	}
	if err := s.lease.engineLives(ctx); err != nil {
		return sandbox.Exit{Cause: sandbox.ByEngine, Message: "the engine went away: " + err.Error()}
	}
	if name == sandbox.Agent && s.network.wasCut() {
		return sandbox.Exit{Cause: sandbox.FromOutside, Message: "its network was taken away through the engine"}
	}
	if done := c.followed.outside(ctx); done != "" {
		return sandbox.Exit{Cause: sandbox.FromOutside, Message: "its container " + done + " through the engine"}
	}
	return guests.ByItself(c.guest.Err())
}

// cut ends the agent's container after somebody took its network away: without
// it the agent finds no server.
func (s *trialSandbox) cut() {
	s.network.setCut()
	_ = s.containers[sandbox.Agent].guest.Close()
}

// engineLives asks the engine, and the lease that the run held when a sandbox was
// opened: with that lease every container of the time has gone.
func (t *heldLease) engineLives(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := t.answers(ctx); err != nil {
			return fmt.Errorf("the run's lease does not answer: %w", err)
		}
		return nil
	})
	group.Go(func() error { return t.engine.answers(ctx) })
	return group.Wait()
}
