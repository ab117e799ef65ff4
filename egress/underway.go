package egress

import (
	"slices"
	"time"

	"github.com/waza-isolate/waza/evidence"
)

// Underway is what a container has under way outside, as events like those of the attempts that
// have ended: its open connections with what crossed them so far, and how many attempts
// are not told one by one. It calls nothing of [Options].
func (c *Proxy) Underway() (events []evidence.Event) {
	c.mu.Lock()
	var open []*outbound
	for one := range c.open {
		if out, ok := one.(*outbound); ok {
			open = append(open, out)
		}
	}
	c.mu.Unlock()
	slices.SortFunc(open, func(a, b *outbound) int { return a.began.Compare(b.began) })
	for _, out := range open {
		events = append(events, c.ledger.event(out.soFar("it is still open")))
	}
	if rest, some := c.ledger.rest(); some {
		events = append(events, rest)
	}
	return events
}

// soFar is what there is to tell of a connection; why is for one that has no reason yet.
func (o *outbound) soFar(why string) evidence.Egress {
	o.mu.Lock()
	told := o.told
	o.mu.Unlock()
	if told.Why == "" {
		told.Why = why
	}
	told.Out, told.In, told.MS = o.out.Load(), o.in.Load(), time.Since(o.began).Milliseconds()
	return told
}
