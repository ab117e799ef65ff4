package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// services are the services of one server.
type services struct {
	server   string
	rec      proxy.Recorder
	say      func(string) // prints a progress message
	running  sync.WaitGroup
	expected atomic.Bool // exits are expected from now on
}

// start starts a server's services in parallel, and returns when all are ready.
func (s *services) start(ctx context.Context, sb sandbox.Sandbox, planned []plan.Service, output func(string) io.Writer) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, service := range planned {
		group.Go(func() error {
			if err := s.startOne(ctx, sb, service, output); err != nil {
				return fmt.Errorf("service %q of server %q %w", service.Name, s.server, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// expectExits marks further exits of services as expected.
func (s *services) expectExits() { s.expected.Store(true) }

// await waits for the services to end, as they do with their sandbox.
func (s *services) await() { s.running.Wait() }

// startOne starts one service and waits until it is ready. Its exit is recorded unless it is
// expected.
func (s *services) startOne(ctx context.Context, in sandbox.Sandbox, service plan.Service, output func(string) io.Writer) error {
	sb, ok := in.(sandbox.Contained)
	if !ok {
		return errors.New("cannot be run by this backend; run with --isolate")
	}
	container := sandbox.ServiceName(s.server, service.Name)
	if err := put(ctx, sb, container, service.Files); err != nil {
		return fmt.Errorf("did not get its files: %w", err)
	}
	home := sb.Layout(container).Home
	started, err := sb.Start(ctx, container, service.Process(home))
	if err != nil {
		return fmt.Errorf("did not start: %w", err)
	}
	stdout, stderr := transport.NewStderr(output(serviceOutput(container, "stdout"))), transport.NewStderr(output(serviceOutput(container, "stderr")))
	program := process.Communicate(started, nil, stdout, stderr)
	ctx, ended := context.WithCancelCause(ctx)
	defer ended(nil)
	s.running.Go(func() {
		var end transport.Ending
		end.Exit, end.Err = program.Wait()
		ended(errors.New("it " + end.String()))
		if !s.expected.Load() {
			s.rec.Event(evidence.Event{Kind: "service_exit", Where: container, Message: end.String()})
		}
	})
	waiting, stop := withPatience(ctx, service.Ready.Timeout)
	defer stop()
	err = sb.Ready(waiting, s.server, service.Name, service.Check(home), s.report(service.Name))
	switch ended, late := context.Cause(ctx), context.Cause(waiting); {
	case err == nil:
		return nil
	case ended != nil: // the check cannot succeed any more
		return withHint(sb, container, plan.Server{Name: s.server}, fmt.Errorf("is not ready: %w%s", ended, saidSoFar(stdout, stderr)))
	case late != nil:
		return fmt.Errorf("is not ready: %w: %v%s", late, err, saidSoFar(stdout, stderr))
	}
	return fmt.Errorf("is not ready: %w%s", err, saidSoFar(stdout, stderr))
}

const (
	// A failed check is reported when it has had the same result samePause long and sameTimes in a
	// row. Most services fail their first checks.
	samePause = 5 * time.Second
	sameTimes = 3
)

// report returns a function that takes the results of a service's failed checks, and reports the
// first one that stays the same.
func (s *services) report(service string) func(found string) {
	var last string
	var since time.Time
	times, reported := 0, false
	return func(found string) {
		if found != last {
			last, since, times = found, time.Now(), 0
		}
		if times++; !reported && times >= sameTimes && time.Since(since) >= samePause {
			reported = true
			s.say(fmt.Sprintf("service %q of server %q is not ready yet: %s", service, s.server, found))
		}
	}
}

// serviceOutput returns the key of a service's output in serverStarter.
func serviceOutput(container, stream string) string { return container + "/" + stream }

// saidSoFar formats the beginning and the end of a service's output for an error message.
func saidSoFar(stdout, stderr *bounded.Ends) string {
	said := strings.TrimSpace(strings.TrimSpace(stdout.String()) + "\n" + strings.TrimSpace(stderr.String()))
	if said == "" {
		return "; it wrote nothing"
	}
	return "; its output:\n" + said
}
