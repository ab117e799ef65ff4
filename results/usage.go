package results

import (
	"cmp"
	"maps"
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/model/dialect"
)

// maxModels is how many models a usage names.
const maxModels = 50

// Usage is what models took, in waza's words: by the gateway's account or, where none was
// in the way, by the agent's. [Models] has more.
type Usage struct {
	Turns int `json:"turns"` // answers of models
	Tokens
	PremiumRequests int `json:"premium_requests"` // always 0: nobody bills by them here
	// ByModel is by the first models' names as the agent asked for them.
	ByModel map[string]ModelUsage `json:"model_metrics,omitempty"`
}

// ModelUsage is what one model took.
type ModelUsage struct {
	Tokens
	Requests int     `json:"request_count"`
	Cost     float64 `json:"request_cost"` // US dollars, of answers that have a price
}

// Tokens are counts by the providers.
type Tokens struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_tokens"`
	CacheWrite int64 `json:"cache_write_tokens"`
}

func tokensOf(u dialect.Usage) Tokens { return Tokens{u.Input, u.Output, u.Cached, u.CacheWrites} }

func (t Tokens) plus(more Tokens) Tokens {
	counts := func(t Tokens) dialect.Usage {
		return dialect.Usage{Input: t.Input, Output: t.Output, Cached: t.CacheRead, CacheWrites: t.CacheWrite}
	}
	return tokensOf(counts(t).Plus(counts(more)))
}

// usageOf adds up a trial's answers; nil where nothing tells of any.
func usageOf(trial Trial) *Usage {
	var u *Usage
	if !trial.Gateway {
		for _, e := range trial.Transcript {
			if e.Type == evidence.AssistantUsage && e.Usage != nil {
				u = u.plus(&Usage{Turns: 1, Tokens: tokensOf(*e.Usage)})
			}
		}
		return u
	}
	for _, call := range trial.Models {
		if call.IsTurn() && call.Usage != nil {
			own := ModelUsage{Tokens: tokensOf(*call.Usage), Requests: 1}
			if call.Cost != nil {
				own.Cost = *call.Cost
			}
			u = u.plus(&Usage{Turns: 1, Tokens: own.Tokens, ByModel: map[string]ModelUsage{shorten(call.Model, maxName): own}})
		}
	}
	return u
}

// plus is the sum of two; nil is none.
func (u *Usage) plus(more *Usage) *Usage {
	if u == nil || more == nil {
		return cmp.Or(u, more)
	}
	sum := &Usage{Turns: u.Turns + more.Turns, Tokens: u.Tokens.plus(more.Tokens)}
	for _, one := range []*Usage{u, more} {
		for _, model := range slices.Sorted(maps.Keys(one.ByModel)) {
			all, known := sum.ByModel[model]
			if !known && len(sum.ByModel) == maxModels {
				continue
			}
			used := one.ByModel[model]
			if sum.ByModel == nil {
				sum.ByModel = map[string]ModelUsage{}
			}
			sum.ByModel[model] = ModelUsage{all.Tokens.plus(used.Tokens), all.Requests + used.Requests, all.Cost + used.Cost}
		}
	}
	return sum
}
