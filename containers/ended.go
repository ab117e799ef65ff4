package containers

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"
	"golang.org/x/sync/errgroup"

	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guest"
)

// Ended implements sandbox.Sandbox. What speaks for a container is nothing that its
// programs can reach: the lease, a container on the same engine over the same
// connection, and the engine's word on who ended the container.
func (s *trialSandbox) Ended(ctx context.Context, name string) sandbox.Exit {
	b := s.containers[name]
	switch {
	case b == nil:
		return sandbox.Exit{}
	case b.answers(ctx) != nil:
	case name == sandbox.Agent && s.isCut(ctx):
		s.cut()
	default:
		return sandbox.Exit{}
	}
	if errors.Is(b.guest.Err(), guest.ErrProtocol) {
		return sandbox.Exit{Cause: sandbox.ByBreach, Message: fmt.Sprintf("what came from process 1 of its container broke the rules: %v", b.guest.Err())}
	}
	if err := s.backend.engineLives(ctx, s.lease); err != nil {
		return sandbox.Exit{Cause: sandbox.ByEngine, Message: "the engine went away: " + err.Error()}
	}
	if name == sandbox.Agent && s.task.wasCut() {
		return sandbox.Exit{Cause: sandbox.FromOutside, Message: "its network was taken away through the engine"}
	}
	if done := b.followed.outside(ctx); done != "" {
		return sandbox.Exit{Cause: sandbox.FromOutside, Message: "its container " + done + " through the engine"}
	}
	how := "does not answer"
	if err := b.guest.Err(); err != nil {
		how = "went away: " + err.Error()
	}
	return sandbox.Exit{Cause: sandbox.ByItself, Message: "process 1 of its container " + how}
}

// answers asks process 1 whether it is there.
func (b *startedContainer) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return b.guest.Ping(ctx)
}

// blame says of a failure to open a sandbox whether the engine went away meanwhile.
// lease is the one held before it, or nil.
func (b *Backend) blame(ctx context.Context, lease *startedContainer, err error) error {
	if ctx.Err() != nil || lease != nil && b.engineLives(ctx, lease) == nil {
		return err
	}
	if lease == nil && b.engine.answers(ctx) == nil {
		return err
	}
	return fmt.Errorf("%w: %w", sandbox.ErrEngineGone, err)
}

// engineLives asks the engine, and the lease that the run held when a sandbox was
// opened: with that went every container of the time.
func (b *Backend) engineLives(ctx context.Context, lease *startedContainer) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := lease.answers(ctx); err != nil {
			return fmt.Errorf("the run's lease does not answer: %w", err)
		}
		return nil
	})
	group.Go(func() error { return b.engine.answers(ctx) })
	return group.Wait()
}

// taskNetwork is a trial's network as the watch knows it.
type taskNetwork struct {
	mu    sync.Mutex
	isCut bool // guarded by mu
}

func (n *taskNetwork) wasCut() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.isCut
}

// followNetwork ends the agent's container where somebody takes the network away: without
// it the agent finds no server.
func (s *trialSandbox) followNetwork() (leave func()) {
	return s.backend.engine.watch.followNetwork(s.plan.network, s.cut)
}

func (s *trialSandbox) cut() {
	s.task.mu.Lock()
	s.task.isCut = true
	s.task.mu.Unlock()
	_ = s.containers[sandbox.Agent].guest.Close()
}

// isCut reports whether the agent's container, while it runs, is no longer on its network.
// What the engine says of it by itself may come later than the agent's complaint.
func (s *trialSandbox) isCut(ctx context.Context) bool {
	if s.plan.network == "" {
		return false
	}
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	found, err := s.backend.engine.NetworkInspect(asking, s.plan.network, network.InspectOptions{})
	if err != nil {
		return errdefs.IsNotFound(err)
	}
	id := s.containers[sandbox.Agent].id
	_, there := found.Containers[id]
	return !there && s.backend.engine.stands(ctx, id)
}
