package trial

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox"
)

// fault is a failure that is not the agent's, and the reason it goes by.
type fault struct {
	reason evidence.Reason
	err    error
}

func (f *fault) Error() string { return f.err.Error() }

func (f *fault) Unwrap() error { return f.err }

// because gives an error a reason, where it has none of its own.
func because(reason evidence.Reason, err error) error {
	if known := (*fault)(nil); err == nil || errors.As(err, &known) {
		return err
	}
	return &fault{reason, err}
}

// reasonOf is the reason of an infra.
func reasonOf(err error) evidence.Reason {
	if errors.Is(err, sandbox.ErrEngineGone) {
		return evidence.ReasonEngine
	}
	if f := (*fault)(nil); errors.As(err, &f) {
		return f.reason
	}
	return evidence.ReasonRunner
}

// excused returns err, or a fault that blames whoever outside the trial ended one of its
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

// foreignFault is the fault of an ending that is nobody's in the trial; else nil.
func foreignFault(container string, e sandbox.Exit) error {
	switch e.Cause {
	case sandbox.FromOutside:
		return &fault{evidence.ReasonKilled, fmt.Errorf("%s: %s", titleOf(container), e.Message)}
	case sandbox.ByEngine:
		return &fault{evidence.ReasonEngine, errors.New(e.Message)}
	}
	return nil
}

// titleOf is a container in a sentence.
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

// member is a container that a trial counts on, in the sandbox that it is in.
type member struct {
	sandbox   sandbox.Sandbox
	container string
}

// members are the containers that the agent needs: its servers and their services.
func (s *stage) members() []member {
	var all []member
	for _, h := range s.servers.hosts {
		if h == nil || h.plan.Remote {
			continue
		}
		all = append(all, member{h.sandbox, h.plan.Name})
		for _, service := range h.plan.Services {
			all = append(all, member{h.sandbox, sandbox.ServiceName(h.plan.Name, service.Name)})
		}
	}
	return all
}

// watcher watches what an agent needs while it is at work. What is lost by its own
// fault is an event, and goes on being a server's; but an agent from which somebody else
// took a server need not go on.
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
				if !isClosed(gone) {
					return
				}
			}
			e := sandbox.EndedOf(ctx, m.sandbox, m.container)
			if ctx.Err() != nil {
				return
			}
			s.tellEnding(m.container, e)
			if e.Foreign() {
				w.once.Do(func() { close(w.lost) })
			}
		})
	}
	return w
}

// close ends the watch. The end of a container that is gone by then is on record when it
// returns, however soon the agent ended after it.
func (w *watcher) close() {
	w.stop()
	w.watchers.Wait()
}

// foreignEnding is the first fault of nobody in the trial among the containers of a
// trial; nil where there is none.
func (s *stage) foreignEnding(ctx context.Context) error {
	for _, m := range append(s.members(), member{s.sandbox, sandbox.Agent}) {
		select {
		case <-sandbox.GoneOf(m.sandbox, m.container):
		default:
			continue
		}
		if err := foreignFault(m.container, sandbox.EndedOf(ctx, m.sandbox, m.container)); err != nil {
			return err
		}
	}
	return nil
}
