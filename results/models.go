package results

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/model/dialect"
)

// Models summarizes the agent's model calls through the gateway.
type Models struct {
	Requests  int           `json:"requests"`            // requests for a model's turn
	Failed    int           `json:"failed,omitempty"`    // requests without a complete response, for any reason
	Tokens    dialect.Usage `json:"tokens"`              // as counted by the providers
	Uncounted int           `json:"uncounted,omitempty"` // responses without a token count from the provider
	Cost      *float64      `json:"cost,omitempty"`      // US dollars; nil if no response has a price
	Unpriced  int           `json:"unpriced,omitempty"`  // responses with tokens but without a price
	Timing
	// Origins counts tool calls of MCP servers by their origin.
	Origins map[evidence.Origin]int `json:"calls_by_origin,omitempty"`
}

// Timing summarizes the durations of complete responses, from the request on. P95 needs at least 20
// responses.
type Timing struct {
	MedianFirstTokenMS *float64 `json:"median_first_token_ms,omitempty"`
	P95FirstTokenMS    *float64 `json:"p95_first_token_ms,omitempty"`
	MedianDurationMS   *float64 `json:"median_duration_ms,omitempty"`
	P95DurationMS      *float64 `json:"p95_duration_ms,omitempty"`
}

// answerTimes holds the durations of responses: to the first token, and in total.
type answerTimes struct{ first, whole []time.Duration }

func (t *answerTimes) add(other answerTimes) {
	t.first, t.whole = append(t.first, other.first...), append(t.whole, other.whole...)
}

func (t answerTimes) timing() Timing {
	first, whole := slices.Sorted(slices.Values(t.first)), slices.Sorted(slices.Values(t.whole))
	return Timing{
		MedianFirstTokenMS: median(first), P95FirstTokenMS: p95(first),
		MedianDurationMS: median(whole), P95DurationMS: p95(whole),
	}
}

// modelsOf summarizes a trial's model calls. It returns nil without a gateway.
func modelsOf(trial Trial) (*Models, answerTimes) {
	var times answerTimes
	if !trial.Gateway {
		return nil, times
	}
	m := &Models{}
	for _, call := range trial.Models {
		if call.IsTurn() {
			m.count(call)
			times.add(timesOf(call))
		}
	}
	for _, call := range trial.Calls {
		m.origin(call.Origin, 1)
	}
	m.Timing = times.timing()
	return m, times
}

func (m *Models) count(call evidence.ModelCall) {
	m.Requests++
	if call.Outcome != evidence.ModelOK {
		m.Failed++
	}
	switch {
	case call.Usage != nil:
		m.Tokens = m.Tokens.Plus(*call.Usage)
	case call.Outcome == evidence.ModelOK:
		m.Uncounted++
	}
	switch {
	case call.Cost != nil:
		m.Cost = plusCost(m.Cost, call.Cost)
	case call.Usage != nil:
		m.Unpriced++
	}
}

func (m *Models) origin(o evidence.Origin, calls int) {
	if m.Origins == nil {
		m.Origins = map[evidence.Origin]int{}
	}
	m.Origins[o] += calls
}

func timesOf(call evidence.ModelCall) (t answerTimes) {
	if call.Outcome != evidence.ModelOK || call.End.Before(call.Start) {
		return t
	}
	t.whole = []time.Duration{call.End.Sub(call.Start)}
	if !call.FirstToken.Before(call.Start) {
		t.first = []time.Duration{call.FirstToken.Sub(call.Start)}
	}
	return t
}

func plusCost(a, b *float64) *float64 {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	sum := *a + *b
	return &sum
}

// plus returns the sum of m and more, without their times. Either may be nil.
func (m *Models) plus(more *Models) *Models {
	if m == nil || more == nil {
		return cmp.Or(m, more)
	}
	sum := &Models{
		Requests: m.Requests + more.Requests, Failed: m.Failed + more.Failed,
		Tokens: m.Tokens.Plus(more.Tokens), Uncounted: m.Uncounted + more.Uncounted,
		Cost: plusCost(m.Cost, more.Cost), Unpriced: m.Unpriced + more.Unpriced,
	}
	for _, one := range []*Models{m, more} {
		for origin, calls := range one.Origins {
			sum.origin(origin, calls)
		}
	}
	return sum
}

// maxModels is the maximum number of models named in a usage.
const maxModels = 50

// Usage is the model usage in the format of upstream waza, as counted by the gateway or,
// without one, reported by the agent. [Models] has more detail.
type Usage struct {
	Turns int `json:"turns"` // responses of models
	Tokens
	PremiumRequests int `json:"premium_requests"` // always 0: billing does not count requests
	// ByModel is keyed by model name as the agent requested it. It holds the first models only.
	ByModel map[string]ModelUsage `json:"model_metrics,omitempty"`
}

// ModelUsage is the usage of one model.
type ModelUsage struct {
	Tokens
	Requests int     `json:"request_count"`
	Cost     float64 `json:"request_cost"` // US dollars, over responses with a price
}

// Tokens are token counts reported by the providers.
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

// usageOf sums up the usage of a trial. It returns nil if all of it is unknown.
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

// plus returns the sum of u and more. Either may be nil.
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

// Judge is the cost of judges' answers, including outdated ones, and of models that played the user. It does
// not include endpoints that report no tokens.
type Judge struct {
	Answers      int   `json:"answers"`
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
}

// judgeOf sums up a trial's steps. It returns nil if no judge answered.
func judgeOf(steps []evidence.Step) *Judge {
	var all *Judge
	for _, step := range steps {
		var answer evidence.JudgeAnswer
		if step.Kind != evidence.StepJudge && step.Kind != evidence.StepResponder || json.Unmarshal(step.Answer, &answer) != nil {
			continue
		}
		all = all.plus(&Judge{1, answer.InputTokens, answer.OutputTokens})
	}
	return all
}

// plus returns the sum of j and more. Either may be nil.
func (j *Judge) plus(more *Judge) *Judge {
	if j == nil || more == nil {
		return cmp.Or(j, more)
	}
	return &Judge{j.Answers + more.Answers, j.InputTokens + more.InputTokens, j.OutputTokens + more.OutputTokens}
}
