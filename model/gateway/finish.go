package gateway

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/model/dialect"
)

// finish says what came of a call that a provider was asked, and counts it.
func (c *call) finish(broken error) {
	c.record.Outcome = evidence.ModelOK
	told := c.told()
	if errors.Is(broken, context.Canceled) && told.Stop != "" && told.Usage != nil && told.Error == "" {
		broken = nil // the answer was complete: some agents do not wait for the stream's end
	}
	switch {
	case errors.Is(broken, errTimeUp):
		c.record.Outcome = evidence.ModelBudget
		c.gateway.allowed.blame(errTimeUp.Error())
	case errors.Is(broken, context.Canceled), errors.Is(broken, errClosed):
		c.record.Outcome = evidence.ModelCancelled
	case broken != nil:
		c.record.Outcome = evidence.ModelTransport
	case c.record.Status >= 400 || told.Error != "":
		c.record.Outcome, c.record.Error = evidence.ModelRefused, told.Error
	}
	if broken != nil {
		c.record.Error = broken.Error()
	}
	c.gateway.lastTurn(c.record, c.provider)
	c.count(told.Usage, broken == nil)
	c.write()
}

// told is what the answer says, as far as that can be read.
func (c *call) told() dialect.Response {
	if !c.record.IsTurn() {
		return dialect.Response{}
	}
	if c.answer.over > 0 {
		return dialect.Response{Usage: c.watch.Usage(nil)}
	}
	c.gateway.decoding.Lock()
	defer c.gateway.decoding.Unlock()
	told, err := dialect.ReadResponse(c.shape, c.record.Status, c.record.ContentType, c.answer.bytes)
	if err != nil {
		return dialect.Response{}
	}
	return told
}

// count adds the call to what the trial has come to. A model's turn that nobody counts to
// its end is estimated, for limits alone: to leave before the count comes must save nothing.
func (c *call) count(usage *dialect.Usage, whole bool) {
	<-c.understood
	c.record.Usage = usage
	var counted dialect.Usage
	if c.record.IsTurn() && c.record.Status < 400 && (usage == nil || !whole) {
		counted = estimate(int64(len(c.record.Request)), c.answer.size())
	}
	if usage != nil {
		usage := *usage
		usage.Input, usage.Output = max(usage.Input, counted.Input), max(usage.Output, counted.Output)
		counted = usage
	}
	cost := 0.0
	if price, ok := c.provider.Prices[c.model]; ok {
		cost = costOf(price, counted)
		if c.record.Usage != nil && whole {
			c.record.Cost = &cost
		}
	}
	c.gateway.allowed.spend(counted, cost, time.Since(c.began), int64(len(c.record.Request)+len(c.answer.bytes)))
}

// write records the call, which holds nothing any more then.
func (c *call) write() {
	c.record.Response, c.record.Truncated = c.answer.bytes, c.answer.over
	c.record.End = c.gateway.rec.Now()
	<-c.understood
	c.record.Model, c.record.RequestSHA256 = c.model, c.digest
	c.gateway.rec.ModelCall(c.record)
	c.answer.release()
}

// refused remembers, and tells once, that a provider refuses its key.
func (g *Gateway) refused(provider, why string) {
	g.mu.Lock()
	_, known := g.refuses[provider]
	g.refuses[provider] = why
	g.mu.Unlock()
	if !known {
		g.rec.Event(evidence.Event{Kind: "unauthorized", Where: provider, Message: why})
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
