package trial

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// measureTimeout bounds asking all containers what they used.
const measureTimeout = 10 * time.Second

// measured is a container and what is planned for it.
type measured struct {
	name    string
	sandbox sandbox.Sandbox // nil for a server that is far away
	limits  evidence.Limits
}

// meter measures what the containers of a trial used and did.
type meter struct {
	*stage
	used *evidence.Usage // by the agent's up to the agent's end; nil where that could not be seen
}

// measure records what every container may use, what it used, and what servers did. It is to be called while
// they stand; the first call counts.
func (m *meter) measure(ctx context.Context) {
	if m.record.Resources != nil || ctx.Err() != nil {
		return
	}
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), measureTimeout)
	defer cancel()
	containers := m.containers()
	found := make([]evidence.Resource, len(containers))
	var all sync.WaitGroup
	for i, container := range containers {
		all.Go(func() { found[i] = container.measure(asking) })
	}
	all.Wait()
	m.record.Resources = make(map[string]evidence.Resource, len(containers))
	for i, container := range containers {
		if container.name == sandbox.Agent && m.used != nil {
			found[i].Used, found[i].Unseen = m.used, "" // without what collecting took
		}
		m.record.Resources[container.name] = found[i]
	}
	m.observe(ctx, watched(containers))
}

func (m measured) measure(ctx context.Context) evidence.Resource {
	r := evidence.Resource{Limits: m.limits}
	if m.sandbox == nil {
		return r
	}
	used, err := sandbox.UsageOf(ctx, m.sandbox, m.name)
	if err != nil {
		r.Unseen = err.Error()
		return r
	}
	r.Used = &used
	return r
}

// containers are those of the trial, and those of servers that the run shares.
func (m *meter) containers() []measured {
	t := m.plan
	var all []measured
	if !t.ServersOnly {
		all = append(all, m.agentContainer())
	}
	for i, s := range t.Servers {
		sb := m.sandbox
		switch {
		case s.Remote:
			sb = nil
		case m.servers.hosts != nil && m.servers.hosts[i] != nil:
			sb = m.servers.hosts[i].sandbox
		case s.Shared:
			continue // it never came up
		}
		limits := s.Container.Limits()
		if s.Remote {
			limits = evidence.Limits{}
		}
		limits.MaxMessage = cmp.Or(s.MaxMessage, transport.DefaultMessage)
		limits.MaxFrames = cmp.Or(s.MaxFrames, transport.DefaultFrames)
		limits.MaxTraffic = cmp.Or(s.MaxTraffic, transport.DefaultTraffic)
		limits.Evidence = m.shares.Servers[s.Name].Max()
		all = append(all, measured{s.Name, sb, limits})
		for _, service := range s.Services {
			all = append(all, measured{sandbox.ServiceName(s.Name, service.Name), sb, service.Container.Limits()})
		}
	}
	return all
}

// agentBox is the agent's.
func (m *meter) agentContainer() measured {
	t := m.plan
	agent := t.Agent.Container.Limits()
	agent.Seconds = t.Timeout.Seconds()
	agent.Evidence = m.shares.Agent.Max()
	agent.MaxOutput, agent.MaxCalls = t.Agent.OutputLimit(), cmp.Or(t.Agent.MaxCalls, proxy.DefaultCalls)
	return measured{sandbox.Agent, m.sandbox, agent}
}

// observeTimeout bounds asking all containers what their programs did.
const observeTimeout = 15 * time.Second

// observe records what servers and their services did beside answering. It is to be
// called while their containers stand.
func (m *meter) observe(ctx context.Context, containers []measured) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), observeTimeout)
	defer cancel()
	var all sync.WaitGroup
	found := make([]evidence.Observed, len(containers))
	for i, container := range containers {
		all.Go(func() {
			found[i] = evidence.Observed{Container: container.name, Seen: Observe(ctx, container.sandbox, container.name)}
		})
	}
	all.Wait()
	_ = m.rec.Observed(found) // the recorder tells at its end
}

// watched are the containers of servers and services that are here.
func watched(containers []measured) (here []measured) {
	for _, container := range containers {
		if container.sandbox != nil && container.name != sandbox.Agent {
			here = append(here, container)
		}
	}
	return here
}

// Observe is what the programs of a server's or a service's container did so far. Where that
// cannot be seen, it says so of everything.
func Observe(ctx context.Context, sb sandbox.Sandbox, container string) observe.Seen {
	observer, ok := sb.(sandbox.Observer)
	if !ok {
		return observe.Nothing("without --isolate it is not watched")
	}
	seen, err := observer.Observe(ctx, container)
	if err != nil {
		return observe.Nothing(err.Error())
	}
	return seen
}
