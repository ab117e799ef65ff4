package trial

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// measureTimeout bounds asking all boxes what they used.
const measureTimeout = 10 * time.Second

// measured is a box and what is planned for it.
type measured struct {
	name    string
	sandbox sandbox.Sandbox // nil for a server that is far away
	limits  evidence.Limits
}

// measure records what every box may use, what it used, and what servers did. It is to be called while
// they stand; the first call counts.
func (tr *trialRun) measure(ctx context.Context) {
	if tr.sandbox == nil || tr.record.Resources != nil || ctx.Err() != nil {
		return
	}
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), measureTimeout)
	defer cancel()
	boxes := tr.boxes()
	found := make([]evidence.Resource, len(boxes))
	var all sync.WaitGroup
	for i, box := range boxes {
		all.Go(func() { found[i] = box.measure(asking) })
	}
	all.Wait()
	tr.record.Resources = make(map[string]evidence.Resource, len(boxes))
	for i, box := range boxes {
		if box.name == sandbox.Agent && tr.agentUsed != nil {
			found[i].Used, found[i].Unseen = tr.agentUsed, "" // without what collecting took
		}
		tr.record.Resources[box.name] = found[i]
	}
	tr.observe(ctx, watched(boxes))
}

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

// boxes are those of the trial, and those of servers that the run shares.
func (tr *trialRun) boxes() []measured {
	t := tr.plan
	var all []measured
	if !t.ServersOnly {
		all = append(all, tr.agentBox())
	}
	for i, s := range t.Servers {
		sb := tr.sandbox
		switch {
		case s.Remote:
			sb = nil
		case tr.hosts != nil && tr.hosts[i] != nil:
			sb = tr.hosts[i].sandbox
		case s.Shared:
			continue // it never came up
		}
		limits := s.Box.Limits()
		if s.Remote {
			limits = evidence.Limits{}
		}
		limits.MaxMessage = cmp.Or(s.MaxMessage, proxy.DefaultMessage)
		limits.MaxFrames = cmp.Or(s.MaxFrames, proxy.DefaultFrames)
		limits.MaxTraffic = cmp.Or(s.MaxTraffic, proxy.DefaultTraffic)
		limits.Evidence = tr.shares.Servers[s.Name].Max()
		all = append(all, measured{s.Name, sb, limits})
		for _, service := range s.Services {
			all = append(all, measured{sandbox.ServiceName(s.Name, service.Name), sb, service.Box.Limits()})
		}
	}
	return all
}

// agentBox is the agent's.
func (tr *trialRun) agentBox() measured {
	t := tr.plan
	agent := t.Agent.Box.Limits()
	agent.Seconds = t.Timeout.Seconds()
	agent.Evidence = tr.shares.Agent.Max()
	agent.MaxOutput, agent.MaxCalls = t.Agent.OutputLimit(), cmp.Or(t.Agent.MaxCalls, proxy.DefaultCalls)
	return measured{sandbox.Agent, tr.sandbox, agent}
}

// breach is a limit that the agent ran into.
type breach struct {
	reason  evidence.Reason
	message string
}

// breaches are the limits that the agent ran into, the one that ended it first. To be
// ended by the kernel for want of memory, or by us for what it wrote, shows as a
// signal otherwise.
func (tr *trialRun) breaches(ctx context.Context, a *attendance) []breach {
	var all []breach
	for _, o := range []*output{a.stdout, a.stderr} {
		if o.isOver() {
			all = append(all, breach{evidence.ReasonOutput, fmt.Sprintf("the agent wrote more than %d bytes to %s", o.limit, o.name)})
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), measureTimeout)
	defer cancel()
	if used, err := tr.sandbox.Usage(ctx, sandbox.Agent); err == nil {
		tr.agentUsed = &used
		for _, b := range used.Breaches() {
			all = append(all, breach{evidence.Reason(b.Kind), "the agent's container " + b.What})
		}
	}
	if why := tr.overspent(); why != "" {
		all = append(all, breach{evidence.ReasonBudget, why})
	}
	return all
}

// observeTimeout bounds asking all boxes what their programs did.
const observeTimeout = 15 * time.Second

// observe records what servers and their services did beside answering. It is to be
// called while their boxes stand.
func (tr *trialRun) observe(ctx context.Context, boxes []measured) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), observeTimeout)
	defer cancel()
	var all sync.WaitGroup
	found := make([]evidence.Observed, len(boxes))
	for i, box := range boxes {
		all.Go(func() { found[i] = evidence.Observed{Box: box.name, Seen: Observe(ctx, box.sandbox, box.name)} })
	}
	all.Wait()
	_ = tr.rec.Observed(found) // the recorder tells at its end
}

// watched are the boxes of servers and services that are here.
func watched(boxes []measured) (here []measured) {
	for _, box := range boxes {
		if box.sandbox != nil && box.name != sandbox.Agent {
			here = append(here, box)
		}
	}
	return here
}

// Observe is what the programs of a server's or a service's box did so far. Where that
// cannot be seen, it says so of everything.
func Observe(ctx context.Context, sb sandbox.Sandbox, box string) observe.Seen {
	observer, ok := sb.(sandbox.Observer)
	if !ok {
		return observe.Nothing("without --isolate it is not watched")
	}
	seen, err := observer.Observe(ctx, box)
	if err != nil {
		return observe.Nothing(err.Error())
	}
	return seen
}
