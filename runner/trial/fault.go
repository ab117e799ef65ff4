package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/hint"
	"github.com/waza-isolate/waza/sandbox/process"
)

// fault is a failure that the agent did not cause, with its reason.
type fault struct {
	reason evidence.Reason
	err    error
}

func (f *fault) Error() string { return f.err.Error() }

func (f *fault) Unwrap() error { return f.err }

// withReason returns err with a reason, unless it has one.
func withReason(reason evidence.Reason, err error) error {
	if known := (*fault)(nil); err == nil || errors.As(err, &known) {
		return err
	}
	return &fault{reason, err}
}

// reasonOf returns the reason of an error, or ReasonRunner.
func reasonOf(err error) evidence.Reason {
	if errors.Is(err, sandbox.ErrEngineGone) {
		return evidence.ReasonEngine
	}
	if f := (*fault)(nil); errors.As(err, &f) {
		return f.reason
	}
	return evidence.ReasonRunner
}

// unlessOutside returns err, or a fault if somebody outside the trial ended one of its containers.
func (s *stage) unlessOutside(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	if foreign := firstForeign(ctx, s.withAgent()); foreign != nil {
		return &fault{reasonOf(foreign), fmt.Errorf("%w; %w", foreign, err)}
	}
	return err
}

// foreignFault returns a fault if somebody outside the trial ended a container, else nil.
func foreignFault(container string, e sandbox.Exit) error {
	switch e.Cause {
	case sandbox.FromOutside:
		return &fault{evidence.ReasonKilled, fmt.Errorf("%s: %s", titleOf(container), e.Message)}
	case sandbox.ByEngine:
		return &fault{evidence.ReasonEngine, errors.New(e.Message)}
	}
	return nil
}

// titleOf returns a container's name for messages.
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

// member is a container of a trial and the sandbox that it is in.
type member struct {
	sandbox   sandbox.Sandbox
	container string
}

// members returns the containers of the trial's servers and their services.
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

// foreignEnding returns a fault if somebody outside the trial ended one of the containers, or nil.
// If something failed, it checks all containers, since a program may notice an end before the
// runner does; otherwise only those that are known to be gone.
func foreignEnding(ctx context.Context, containers []member, failed bool) error {
	return firstForeign(ctx, slices.DeleteFunc(slices.Clone(containers), func(m member) bool {
		return !failed && !process.IsClosed(m.sandbox.Gone(m.container))
	}))
}

// withAgent returns the containers of servers and services, and the agent's.
func (s *stage) withAgent() []member {
	return append(s.members(), member{s.sandbox, sandbox.Agent})
}

// firstForeign returns a fault for the first container that somebody outside the trial ended, or
// nil.
func firstForeign(ctx context.Context, containers []member) error {
	for _, m := range containers {
		if err := foreignFault(m.container, m.sandbox.Ended(ctx, m.container)); err != nil {
			return err
		}
	}
	return nil
}

// withHint adds to err a hint on why the server's container did not start. Hints are about programs
// in containers, so a remote server has none.
func withHint(sb sandbox.Sandbox, container string, server plan.Server, err error) error {
	if server.Remote {
		return err
	}
	_, isContained := sb.(sandbox.Contained)
	special := sb.Hint(container)
	if errors.Is(err, client.ErrNoAnswer) || errors.Is(err, client.ErrRefused) {
		special = "" // the program has started
	}
	command := strings.Join(append([]string{server.Expanded.Command}, server.Expanded.Args...), " ")
	return hint.Add(err, hint.OnServer(server.Name, command+"\n"+err.Error(), special, isContained))
}
