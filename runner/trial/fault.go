package trial

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/hint"
	"github.com/waza-isolate/waza/sandbox/process"
)

// fault is a failure that is not the agent's, and the reason it goes by.
type fault struct {
	reason evidence.Reason
	err    error
}

func (f *fault) Error() string { return f.err.Error() }

func (f *fault) Unwrap() error { return f.err }

// because returns err with a reason, unless it has one.
func because(reason evidence.Reason, err error) error {
	if known := (*fault)(nil); err == nil || errors.As(err, &known) {
		return err
	}
	return &fault{reason, err}
}

// reasonOf returns the reason of a trial that broke.
func reasonOf(err error) evidence.Reason {
	if errors.Is(err, sandbox.ErrEngineGone) {
		return evidence.ReasonEngine
	}
	if f := (*fault)(nil); errors.As(err, &f) {
		return f.reason
	}
	return evidence.ReasonRunner
}

// excused returns err, or a fault that blames somebody outside the trial who ended one of its
// containers meanwhile.
func (s *stage) excused(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	if foreign := s.foreignEnding(ctx); foreign != nil {
		return &fault{reasonOf(foreign), fmt.Errorf("%w; %w", foreign, err)}
	}
	return err
}

// foreignFault returns the fault of a container that somebody outside the trial ended; else nil.
func foreignFault(container string, e sandbox.Exit) error {
	switch e.Cause {
	case sandbox.FromOutside:
		return &fault{evidence.ReasonKilled, fmt.Errorf("%s: %s", titleOf(container), e.Message)}
	case sandbox.ByEngine:
		return &fault{evidence.ReasonEngine, errors.New(e.Message)}
	}
	return nil
}

// titleOf returns what messages call a container.
func titleOf(container string) string {
	switch server, service, found := strings.Cut(container, "/"); {
	case container == sandbox.Agent:
		return "the agent"
	case found:
		return fmt.Sprintf("service %q of server %q", service, server)
	default:
		return fmt.Sprintf("server %q", container)
	}
}

// member is a container that a trial needs, and its sandbox.
type member struct {
	sandbox   sandbox.Sandbox
	container string
}

// members returns the containers that the agent needs: its servers' and their services'.
func (s *stage) members() []member {
	var all []member
	for _, up := range s.servers.up {
		if up.plan.Remote {
			continue
		}
		all = append(all, member{up.sandbox, up.plan.Name})
		for _, service := range up.plan.Services {
			all = append(all, member{up.sandbox, sandbox.ServiceName(up.plan.Name, service.Name)})
		}
	}
	return all
}

// watcher watches the containers that an agent needs while it works. Each end is an event. If
// somebody outside the trial caused it, the agent need not go on.
type watcher struct {
	lost     chan struct{} // closed when the agent need not go on
	stop     context.CancelFunc
	watchers sync.WaitGroup
	once     sync.Once
}

func (s *stage) watch(ctx context.Context) *watcher {
	watching, stop := context.WithCancel(ctx)
	w := &watcher{lost: make(chan struct{}), stop: stop}
	for _, m := range s.members() {
		gone := sandbox.GoneOf(m.sandbox, m.container)
		w.watchers.Go(func() {
			select {
			case <-gone:
			case <-watching.Done():
				if !process.IsClosed(gone) {
					return
				}
			}
			e := sandbox.EndedOf(ctx, m.sandbox, m.container)
			if ctx.Err() != nil {
				return
			}
			s.recordExit(m.container, e)
			if e.Foreign() {
				w.once.Do(func() { close(w.lost) })
			}
		})
	}
	return w
}

// close ends the watch. When it returns, the end of every container that is gone is on record,
// however soon the agent ended after it.
func (w *watcher) close() {
	w.stop()
	w.watchers.Wait()
}

// foreignEnding returns the fault of the first container of the trial that somebody outside it
// ended; nil if there is none.
func (s *stage) foreignEnding(ctx context.Context) error {
	for _, m := range append(s.members(), member{s.sandbox, sandbox.Agent}) {
		if !process.IsClosed(sandbox.GoneOf(m.sandbox, m.container)) {
			continue
		}
		if err := foreignFault(m.container, sandbox.EndedOf(ctx, m.sandbox, m.container)); err != nil {
			return err
		}
	}
	return nil
}

// hinted returns err with a hint on why a container of the server did not come up: its own, or
// that of a service. Hints are about containers' programs, so a remote server has none.
func hinted(sb sandbox.Sandbox, container string, server plan.Server, err error) error {
	if server.Remote {
		return err
	}
	special, isContained := specialOf(sb, container)
	if errors.Is(err, client.ErrNoAnswer) || errors.Is(err, client.ErrRefused) {
		special = "" // its program came up
	}
	command := strings.Join(append([]string{server.Expanded.Command}, server.Expanded.Args...), " ")
	return hint.Add(err, hint.OnServer(server.Name, command+"\n"+err.Error(), special, isContained))
}

// specialOf returns the sandbox's own hint on a container, and whether it is one of an image.
func specialOf(sb sandbox.Sandbox, container string) (says string, isContained bool) {
	hinter, isContained := sb.(sandbox.Hinter)
	if isContained {
		says = hinter.Hint(container)
	}
	return says, isContained
}

// agentHint returns the sandbox's own hint on the agent's container.
func agentHint(sb sandbox.Sandbox) string {
	says, _ := specialOf(sb, sandbox.Agent)
	return says
}
