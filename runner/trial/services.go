package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

const (
	// maxServiceOutput is how many bytes of each of a service's outputs are kept.
	maxServiceOutput = 16 << 20
	// maxLastWords is how much of its end is there for messages.
	maxLastWords = 2 << 10
)

// auxiliaries are the services of one server.
type auxiliaries struct {
	server   string
	sandbox  sandbox.Sandbox
	rec      proxy.Recorder
	attended sync.WaitGroup
	leaving  atomic.Bool // their ends are ours from now on
}

// start starts what a server needs beside it, all of it together, and
// returns when each is ready.
func (as *auxiliaries) start(ctx context.Context, services []plan.Service, output func(string) io.Writer) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, service := range services {
		a := as.auxiliary(service, output)
		group.Go(func() error {
			if err := as.startOne(ctx, a); err != nil {
				return fmt.Errorf("service %q of server %q %w", service.Name, as.server, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// leave says that from now on the services' ends are ours.
func (as *auxiliaries) leave() { as.leaving.Store(true) }

// await waits for them to end, as they do with their sandbox.
func (as *auxiliaries) await() { as.attended.Wait() }

// auxiliary is a service under way: what it says is kept, and its end is told.
type auxiliary struct {
	container      string
	plan           plan.Service
	stdout, stderr *bounded.Ends
}

func (as *auxiliaries) auxiliary(s plan.Service, output func(string) io.Writer) *auxiliary {
	a := &auxiliary{container: sandbox.ServiceName(as.server, s.Name), plan: s}
	kept := func(stream string) *bounded.Ends {
		file := &bounded.Head{W: output(serviceOutput(as.server, s.Name, stream)), Limit: maxServiceOutput, Full: func() {
			message := fmt.Sprintf("only the first %d bytes of %s are kept", maxServiceOutput, stream)
			as.rec.Event(evidence.Event{Kind: "limit", Where: a.container, Message: message})
		}}
		return &bounded.Ends{Tail: maxLastWords, W: file}
	}
	a.stdout, a.stderr = kept("stdout"), kept("stderr")
	return a
}

// serviceOutput names an output of a service among all that servers write.
func serviceOutput(server, service, stream string) string {
	return sandbox.ServiceName(server, service) + "/" + stream
}

// startOne starts one service and waits until it is ready.
func (as *auxiliaries) startOne(ctx context.Context, a *auxiliary) error {
	sb, ok := as.sandbox.(sandbox.Services)
	if !ok {
		return errors.New("cannot be run by this backend; run with --isolate")
	}
	if err := put(ctx, sb, a.container, "/", a.plan.Files); err != nil {
		return fmt.Errorf("did not get its files: %w", err)
	}
	home := sandbox.LayoutOf(sb, a.container).Home
	program, check := a.plan.Process(home), a.plan.Check(home)
	running, err := sb.Start(ctx, a.container, program)
	if err != nil {
		return fmt.Errorf("did not start: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	as.attend(a, running, cancel)
	limit := a.plan.Ready.Timeout
	waiting, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%v have passed", limit))
	defer stop()
	err = sb.Ready(waiting, as.server, a.plan.Name, check)
	switch ended, late := context.Cause(ctx), context.Cause(waiting); {
	case err == nil:
		return nil
	case ended != nil: // and then no check succeeds
		return advised(sb, a.container, fmt.Errorf("is not ready: %w%s", ended, a.lastWords()))
	case late != nil:
		return fmt.Errorf("is not ready: %w: %v%s", late, err, a.lastWords())
	}
	return fmt.Errorf("is not ready: %w%s", err, a.lastWords())
}

// attend keeps what a service says, and tells its end unless that is ours. The
// service, and so this, lasts no longer than its sandbox.
func (as *auxiliaries) attend(a *auxiliary, p process.Process, ended context.CancelCauseFunc) {
	as.attended.Go(func() {
		exit, err := process.Attend(p, nil, a.stdout, a.stderr)
		how := ending(exit, err)
		ended(errors.New("it " + how))
		if !as.leaving.Load() {
			as.rec.Event(evidence.Event{Kind: "service_exit", Where: a.container, Message: how})
		}
	})
}

func ending(exit process.Exit, err error) string {
	switch {
	case err != nil:
		return "is lost: " + err.Error()
	case exit.Signal != "":
		return "was ended by " + exit.Signal
	}
	return fmt.Sprintf("exited with code %d", exit.Code)
}

// lastWords is the end of a service's output, as a sentence of its own.
func (a *auxiliary) lastWords() string {
	words := strings.TrimSpace(strings.TrimSpace(a.stdout.String()) + "\n" + strings.TrimSpace(a.stderr.String()))
	if words == "" {
		return "; it wrote nothing"
	}
	return "; its output ends:\n" + words
}
