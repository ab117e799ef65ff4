package containers

import (
	"context"
	"errors"
	"fmt"

	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guest"
	"github.com/waza-isolate/waza/sandbox/guests"
)

// Ended implements sandbox.Sandbox. It only uses sources that programs in the container cannot
// influence: the guard of the mux, the lease, which is another container on the same engine and
// connection, and the engine's events.
func (s *trialSandbox) Ended(ctx context.Context, name string) sandbox.Exit {
	c := s.containers[name]
	if c == nil {
		return sandbox.Exit{}
	}
	switch {
	case errors.Is(c.Guest.Err(), guest.ErrProtocol):
	case c.answers(ctx) != nil:
	case name == sandbox.Agent && s.network.lost(ctx, c.id):
		s.cut()
	default:
		return sandbox.Exit{}
	}
	if exit, is := guests.Breach(c.Guest); is {
		return exit
	}
	if err := s.lease.engineLives(ctx); err != nil {
		return sandbox.Exit{Cause: sandbox.ByEngine, Message: "the engine went away: " + err.Error()}
	}
	if name == sandbox.Agent && s.network.wasCut() {
		return sandbox.Exit{Cause: sandbox.FromOutside, Message: "its network was taken away through the engine"}
	}
	if done := c.followed.outside(ctx, c.Guest.Err() != nil); done != "" {
		return sandbox.Exit{Cause: sandbox.FromOutside, Message: "its container " + done + " through the engine"}
	}
	return guests.ByItself(c.Guest.Err())
}

// cut ends the agent's container after its network was removed, because without it the agent
// cannot reach its servers.
func (s *trialSandbox) cut() {
	s.network.setCut()
	_ = s.containers[sandbox.Agent].Guest.Close()
}

// engineLives returns nil if the engine answers, and the lease is alive and has not stood still. If
// the lease has ended, all containers started under it have too. The lease is asked after the
// engine, because guests of a frozen engine exit one by one.
func (t *heldLease) engineLives(ctx context.Context) error {
	if err := t.engine.answers(ctx); err != nil {
		return err
	}
	if err := t.answers(ctx); err != nil {
		return fmt.Errorf("the run's lease does not answer: %w", err)
	}
	if t.Guest.StoodStill() {
		return errors.New("it passed on no message to the run's lease for some seconds")
	}
	return nil
}
