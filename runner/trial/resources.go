package trial

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// measureTimeout bounds measuring all containers.
const measureTimeout = 15 * time.Second

// measured is a container and its limits.
type measured struct {
	name    string
	sandbox sandbox.Sandbox // nil for a remote server
	limits  evidence.Limits
}

// measure returns the limits and the resource usage of containers, by name, and records the
// activity of servers and services. It returns nil if ctx is done. It must be called while the
// containers are running. used is the usage of the agent's container at the agent's exit, before
// its files were collected; nil if not known.
func measure(ctx context.Context, containers []measured, used *evidence.Usage, rec *evidence.Recorder) map[string]evidence.Resource {
	if len(containers) == 0 || ctx.Err() != nil {
		return nil
	}
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), measureTimeout)
	defer cancel()
	found, seen := make([]evidence.Resource, len(containers)), make([]observe.Seen, len(containers))
	var all sync.WaitGroup
	for i, container := range containers {
		all.Go(func() { found[i] = container.measure(asking) })
		if container.isWatched() {
			all.Go(func() { seen[i] = activityOf(asking, container.sandbox, container.name) })
		}
	}
	all.Wait()
	var observed []evidence.Observed
	resources := make(map[string]evidence.Resource, len(containers))
	for i, container := range containers {
		if container.name == sandbox.Agent && used != nil {
			found[i].Used, found[i].Unseen = used, ""
		}
		resources[container.name] = found[i]
		if container.isWatched() {
			observed = append(observed, evidence.Observed{Container: container.name, Seen: seen[i]})
		}
	}
	_ = rec.Observed(observed) // the recorder returns the error when it is closed
	return resources
}

// isWatched reports whether m is a local container of a server or service.
func (m measured) isWatched() bool { return m.sandbox != nil && m.name != sandbox.Agent }

func (m measured) measure(ctx context.Context) evidence.Resource {
	r := evidence.Resource{Limits: m.limits}
	if m.sandbox == nil {
		return r
	}
	used, err := m.sandbox.Usage(ctx, m.name)
	if err != nil {
		r.Unseen = err.Error()
		return r
	}
	r.Used = &used
	return r
}

// containers returns the trial's containers and those of shared servers, or nothing if the sandbox did not open.
func (s *stage) containers() []measured {
	t := s.plan
	var all []measured
	if s.sandbox == nil {
		return nil
	}
	if s.spec.HasAgent() {
		all = append(all, agentContainer(t, s.sandbox))
	}
	for _, server := range t.Servers {
		sb, limits := s.sandbox, server.Container.Limits()
		if up := s.servers.find(server.Name); up != nil {
			sb = up.sandbox
		} else if server.Shared && !server.Remote {
			continue
		}
		if server.Remote {
			sb, limits = nil, evidence.Limits{}
		}
		limits.MaxMessage = cmp.Or(server.MaxMessage, transport.DefaultMessage)
		limits.MaxFrames = cmp.Or(server.MaxFrames, transport.DefaultFrames)
		limits.MaxTraffic = cmp.Or(server.MaxTraffic, transport.DefaultTraffic)
		all = append(all, measured{server.Name, sb, limits})
		for _, service := range server.Services {
			all = append(all, measured{sandbox.ServiceName(server.Name, service.Name), sb, service.Container.Limits()})
		}
	}
	return all
}

// agentContainer returns the agent's container and its limits.
func agentContainer(t *plan.Trial, sb sandbox.Sandbox) measured {
	agent := t.Agent.Container.Limits()
	agent.Seconds = t.Timeout.Seconds()
	agent.MaxOutput, agent.MaxCalls = t.Agent.OutputLimit(), cmp.Or(t.Agent.MaxCalls, proxy.DefaultCalls)
	return measured{sandbox.Agent, sb, agent}
}

// activityOf returns the activity of programs in a container so far, or why it is not known.
func activityOf(ctx context.Context, sb sandbox.Sandbox, container string) observe.Seen {
	contained, ok := sb.(sandbox.Contained)
	if !ok {
		return observe.Nothing("without --isolate it is not watched")
	}
	seen, err := contained.Observe(ctx, container)
	if err != nil {
		return observe.Nothing(err.Error())
	}
	return seen
}
