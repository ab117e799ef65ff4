package proxy

import (
	"maps"
	"time"

	"github.com/waza-isolate/waza/internal/bounded"
)

// lateGrace is how long the id of a request that was given up is kept from other
// requests, so that its late answer does not reach them.
const lateGrace = 5 * time.Second

// lateIDs are the ids of requests that were given up. Where there is no memory for
// one it is not kept: only an agent that floods is short of it.
type lateIDs struct {
	memory *bounded.Budget
	until  map[string]time.Time
}

func (o *lateIDs) add(key string) {
	now := time.Now()
	maps.DeleteFunc(o.until, func(key string, until time.Time) bool {
		if !until.Before(now) {
			return false
		}
		o.memory.Give(idCost(key))
		return true
	})
	if _, there := o.until[key]; !there && !o.memory.Take(idCost(key)) {
		return
	}
	if o.until == nil {
		o.until = map[string]time.Time{}
	}
	o.until[key] = now.Add(lateGrace)
}

// left is how long key is still kept.
func (o *lateIDs) left(key string) time.Duration { return time.Until(o.until[key]) }

func (o *lateIDs) drop(key string) {
	if _, there := o.until[key]; there {
		delete(o.until, key)
		o.memory.Give(idCost(key))
	}
}

func (o *lateIDs) clear() {
	for key := range o.until {
		o.drop(key)
	}
}

// idCost is more than what is held to remember an id.
func idCost(key string) int64 { return int64(len(key)) + 128 }
