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

// measureTimeout bounds measuring all containers.
const measureTimeout = 15 * time.Second

// measured is a container and its limits.
type measured struct {
	name    string
	sandbox sandbox.Sandbox // nil for a remote server
	limits  evidence.Limits
}

// meter measures what a trial's containers used and did.
type meter struct{ *stage }

// measure records the limits and the resource usage of every container, and the activity of
// servers. It must be called while the containers are running. used is the usage of the agent's
// container at the agent's exit, without that of collecting files; nil if not known.
func (m meter) measure(ctx context.Context, used *evidence.Usage) {
	if ctx.Err() != nil {
		return
	}
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), measureTimeout)
	defer cancel()
	containers := m.containers()
	found, seen := make([]evidence.Resource, len(containers)), make([]observe.Seen, len(containers))
	var all sync.WaitGroup
	for i, container := range containers {
		all.Go(func() { found[i] = container.measure(asking) })
		if container.isWatched() {
			all.Go(func() { seen[i] = observed(asking, container.sandbox, container.name) })
		}
	}
	all.Wait()
	var observed []evidence.Observed
	m.record.Resources = make(map[string]evidence.Resource, len(containers))
	for i, container := range containers {
		if container.name == sandbox.Agent && used != nil {
			found[i].Used, found[i].Unseen = used, ""
		}
		m.record.Resources[container.name] = found[i]
		if container.isWatched() {
			observed = append(observed, evidence.Observed{Container: container.name, Seen: seen[i]})
		}
	}
	_ = m.rec.Observed(observed) // the recorder returns the error when it is closed
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

// containers returns the trial's containers and those of shared servers.
func (m meter) containers() []measured {
	t := m.plan
	var all []measured
	if m.spec.HasAgent() {
		all = append(all, m.agentContainer())
	}
	for _, s := range t.Servers {
		sb, limits := m.sandbox, s.Container.Limits()
		if up := m.servers.find(s.Name); up != nil {
			sb = up.sandbox
		} else if s.Shared && !s.Remote {
			continue
		}
		if s.Remote {
			sb, limits = nil, evidence.Limits{}
		}
		limits.MaxMessage = cmp.Or(s.MaxMessage, transport.DefaultMessage)
		limits.MaxFrames = cmp.Or(s.MaxFrames, transport.DefaultFrames)
		limits.MaxTraffic = cmp.Or(s.MaxTraffic, transport.DefaultTraffic)
		all = append(all, measured{s.Name, sb, limits})
		for _, service := range s.Services {
			all = append(all, measured{sandbox.ServiceName(s.Name, service.Name), sb, service.Container.Limits()})
		}
	}
	return all
}

// agentContainer returns the agent's container and its limits.
func (m meter) agentContainer() measured {
	t := m.plan
	agent := t.Agent.Container.Limits()
	agent.Seconds = t.Timeout.Seconds()
	agent.MaxOutput, agent.MaxCalls = t.Agent.OutputLimit(), cmp.Or(t.Agent.MaxCalls, proxy.DefaultCalls)
	return measured{sandbox.Agent, m.sandbox, agent}
}

// observed returns the activity of programs in a container so far, or why it is not known.
func observed(ctx context.Context, sb sandbox.Sandbox, container string) observe.Seen {
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
