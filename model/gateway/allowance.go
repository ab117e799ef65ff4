package gateway

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/model/dialect"
)

// DefaultRequests is how many requests an agent may make in a trial.
const DefaultRequests = 1000

// maxRefused is how many requests beyond its limits an agent may make before it is ended. Each
// is recorded.
const maxRefused = 100

// bytesPerToken estimates tokens if the provider does not count.
const bytesPerToken = 4

// maxCost is the most that a call is counted as, in US dollars, so that sums stay numbers.
const maxCost = 1e15

// allowance counts an agent's use of models in a trial against its limits.
type allowance struct {
	limits eval.ModelLimits

	mu       sync.Mutex
	requests int           // guarded by mu, like the following fields
	usage    dialect.Usage // counted, or else estimated
	cost     float64       // US dollars
	took     time.Duration // calls that have ended, together
	kept     int64         // bytes that were recorded
	refused  int
	why      string // the first refusal
}

func newAllowance(limits eval.ModelLimits) *allowance {
	limits.Requests = cmp.Or(limits.Requests, DefaultRequests)
	return &allowance{limits: limits}
}

// take counts a request and returns its remaining time, or why it exceeds a limit. Tokens,
// costs and times are only known when a call ends, so concurrent calls may exceed the
// limits together.
func (a *allowance) take(priced bool, model string) (why string, left time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	seconds := time.Duration(a.limits.Seconds) * time.Second
	switch l := a.limits; {
	case a.requests >= l.Requests:
		why = fmt.Sprintf("the agent made more than %d requests to models", l.Requests)
	case l.Tokens > 0 && a.usage.Total() >= l.Tokens:
		why = fmt.Sprintf("the agent's model calls took %d tokens of %d", a.usage.Total(), l.Tokens)
	case l.Cost > 0 && !priced:
		why = fmt.Sprintf("the agent asked for the model %q, whose cost is limited but which has no price; add one in config.models", model)
	case l.Cost > 0 && a.cost >= l.Cost:
		why = fmt.Sprintf("the agent's model calls cost %.4f of %.4f US dollars", a.cost, l.Cost)
	case seconds > 0 && a.took >= seconds:
		why = fmt.Sprintf("the agent's model calls took longer than %s together", seconds)
	case a.kept >= maxKeptInAll:
		why = fmt.Sprintf("the agent and its models exchanged more than %d bytes", int64(maxKeptInAll))
	}
	if why != "" {
		a.refused++
		a.why = cmp.Or(a.why, why)
		return why, 0
	}
	a.requests++
	return "", seconds - a.took
}

// exhausted reports whether the agent must be stopped, because too many requests were
// refused or too much was recorded.
func (a *allowance) exhausted() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused >= maxRefused || a.refused > 0 && a.kept > maxKeptInAll+maxMemory
}

// overspent returns why the first request was refused; empty if none was.
func (a *allowance) overspent() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.why
}

// blame counts a call that was cut off at a limit as refused.
func (a *allowance) blame(why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.why = cmp.Or(a.why, why)
}

// spend adds the figures of a call. No count of u is negative.
func (a *allowance) spend(u dialect.Usage, cost float64, took time.Duration, kept int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.usage = a.usage.Plus(u)
	a.cost += cost
	a.took += took
	a.kept += kept
}

// costOf returns what usage costs at a price, in US dollars, up to maxCost.
func costOf(p eval.Price, u dialect.Usage) float64 {
	or := func(price *float64) float64 {
		if price == nil {
			return p.Input
		}
		return *price
	}
	plain := max(0, u.Input-u.Cached-u.CacheWrites)
	sum := float64(plain)*p.Input + float64(max(0, u.Cached))*or(p.Cached) + float64(max(0, u.CacheWrites))*or(p.CacheWrites) + float64(max(0, u.Output))*p.Output
	if cost := sum / 1e6; cost >= 0 && cost < maxCost {
		return cost
	}
	return maxCost
}

// estimate returns the usage of a call that the provider did not count, by its bytes.
func estimate(request, response int64) dialect.Usage {
	return dialect.Usage{Input: (request + bytesPerToken - 1) / bytesPerToken, Output: (response + bytesPerToken - 1) / bytesPerToken}
}
