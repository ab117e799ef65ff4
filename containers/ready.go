package containers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/testcontainers/testcontainers-go"
	tcexec "github.com/testcontainers/testcontainers-go/exec"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guest"
	"github.com/waza-isolate/waza/sandbox/process"
)

const (
	// checkTimeout bounds waiting where the caller does not.
	checkTimeout = time.Minute
	// checkGrace is how long a check may take to end once its time is over.
	checkGrace = 2 * time.Second
)

// Ready implements sandbox.Services.
func (s *trialSandbox) Ready(ctx context.Context, server, service string, check process.Spec) error {
	b, err := s.container(sandbox.ServiceName(server, service))
	if err != nil {
		return err
	}
	if b.service == nil {
		return fmt.Errorf("%s is no service", sandbox.ServiceName(server, service))
	}
	if err := b.awaitReady(ctx, check); err != nil {
		return err
	}
	return s.expose(ctx, server, service)
}

// awaitReady has testcontainers wait for the check, or for the image's own.
func (b *startedContainer) awaitReady(ctx context.Context, check process.Spec) error {
	left := checkTimeout
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	var strategy wait.Strategy = wait.ForExec(check.Args).WithStartupTimeout(left)
	if len(check.Args) == 0 {
		if !b.image.health {
			return errors.New("its image has no HEALTHCHECK; give it ready.exec")
		}
		strategy = wait.ForHealthCheck().WithStartupTimeout(left)
	}
	check.Dir = cmp.Or(check.Dir, b.image.dir)
	target := &target{Container: b.service, guest: b.guest, check: check}
	err := strategy.WaitUntilReady(ctx, target)
	switch {
	case err == nil:
		return nil
	case target.found != "" && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)):
		return errors.New(target.found)
	case target.found != "":
		return fmt.Errorf("%w; %s", err, target.found)
	}
	return err
}

// target is a service as testcontainers' waits see it. Checks are run by the
// guest, like everything else in its container, with the service's environment,
// and end with their context.
type target struct {
	testcontainers.Container
	guest *guest.Guest
	check process.Spec
	found string // what the last check found; empty before one has ended
}

// Exec implements wait.StrategyTarget.
func (t *target) Exec(ctx context.Context, args []string, _ ...tcexec.ProcessOption) (int, io.Reader, error) {
	spec := t.check
	spec.Args = args
	p, err := t.guest.Exec(ctx, spec, false)
	if err != nil {
		return 0, nil, err
	}
	said := &bounded.Ends{Tail: tailSize}
	var exit process.Exit
	ended := make(chan error, 1)
	go func() {
		var err error
		exit, err = process.Attend(p, nil, said, said)
		ended <- err
	}()
	select {
	case err = <-ended:
	case <-ctx.Done():
		if t.found == "" { // else the last one that ended says more
			t.found = "its check did not end" + behind(said)
		}
		_ = p.Signal(process.Kill)
		select {
		case <-ended:
		case <-time.After(checkGrace): // it ends with its container
		}
		return 0, nil, ctx.Err()
	}
	if err != nil {
		return 0, nil, err
	}
	t.found = fmt.Sprintf("its check exited with code %d", exit.Code)
	if exit.Signal != "" {
		t.found = "its check was ended by " + exit.Signal
	}
	t.found += behind(said)
	return exit.Code, strings.NewReader(said.String()), nil
}

// State implements wait.StrategyTarget.
func (t *target) State(ctx context.Context) (*container.State, error) {
	state, err := t.Container.State(ctx)
	if err != nil || state.Health == nil {
		return state, err
	}
	t.found = "its health check says " + state.Health.Status
	if results := state.Health.Log; len(results) > 0 {
		if said := strings.TrimSpace(results[len(results)-1].Output); said != "" {
			t.found += ": " + said[max(0, len(said)-tailSize):]
		}
	}
	return state, nil
}
