package runner

import (
	"context"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/observe"
)

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
