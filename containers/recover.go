package containers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/retry"
	"github.com/waza-isolate/waza/sandbox"
)

var _ sandbox.Reconnector = (*Backend)(nil)

const (
	// askTimeout bounds one question that an engine answers at once unless it is busy.
	askTimeout = 30 * time.Second
	// The engine is asked again after firstPause, and then ever more seldom.
	firstPause = 100 * time.Millisecond
	lastPause  = 3 * time.Second
)

// Reconnect implements sandbox.Reconnector: the engine answers, the run holds its lease,
// and nothing is left of trials that could not be taken down before.
func (b *Backend) Reconnect(ctx context.Context) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := b.recover(ctx)
		if err == nil {
			return nil
		}
		if retry.Sleep(ctx, pause) != nil {
			return fmt.Errorf("the engine does not come back: %w", err)
		}
	}
}

func (b *Backend) recover(ctx context.Context) error {
	if err := b.engine.answers(ctx); err != nil {
		return err
	}
	if _, err := b.leased(ctx); err != nil {
		return err
	}
	return b.takeAway(ctx)
}

// answers asks the engine whether it is there.
func (e *engine) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err := e.Ping(ctx)
	return err
}

// addPending remembers a trial that could not be taken down.
func (b *Backend) addPending(trial string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if defence.EndingContainers {
		b.pending[trial] = true
	}
}

// expectMore remembers that the engine may make something yet that was asked of it
// and given up.
func (b *Backend) expectMore() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.late = true
}

// owes says whether something of the run's trials may be on the engine after them.
func (b *Backend) owes() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.late || len(b.pending) > 0
}

// takeAway takes down what could not be before.
func (b *Backend) takeAway(ctx context.Context) error {
	b.mu.Lock()
	pending := sortedKeys(b.pending)
	b.mu.Unlock()
	var errs []error
	for _, trial := range pending {
		which := labelled(b.run, trial)
		err := errors.Join(b.engine.removeContainers(ctx, which), b.engine.removeNetworks(ctx, which), b.engine.removeVolumes(ctx, which))
		if err != nil {
			errs = append(errs, fmt.Errorf("trial %s: %w", trial, err))
			continue
		}
		b.mu.Lock()
		delete(b.pending, trial)
		b.mu.Unlock()
	}
	return errors.Join(errs...)
}
