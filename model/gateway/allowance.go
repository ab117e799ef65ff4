package gateway

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/model/dialect"
)

// DefaultRequests is the default number of requests that an agent may make in a trial.
const DefaultRequests = 1000

// maxRefused is the number of requests beyond its limits after which an agent is stopped. Each is
// recorded.
const maxRefused = 100

// maxCost is the maximum cost counted for a call, in US dollars. It keeps sums finite.
const maxCost = 1e15

// assumedOutput is the assumed maximum of an answer's tokens if the request has none.
const assumedOutput = 128 << 10

// claim is the maximum that a call may use according to its request.
type claim struct {
	answers int64 // 0 if the request is not for a model's turn
	usage   dialect.Usage
	cost    float64 // US dollars
	model   string
	priced  bool // its price is known, or it is free
}

// asking returns the claim of a request for a model's turn of size bytes. It assumes that each
// token has at least one byte.
func asking(asked dialect.Asking, size int, model string, price eval.Price, priced bool) claim {
	each := asked.MaxTokens
	if each == 0 {
		each = assumedOutput
	}
	output := int64(math.MaxInt64)
	if asked.Answers <= output/each {
		output = asked.Answers * each
	}
	c := claim{answers: asked.Answers, usage: dialect.Usage{Input: int64(size), Output: output}, model: model, priced: priced}
	if priced {
		if price.CacheWrites != nil {
			price.Input = max(price.Input, *price.CacheWrites)
		}
		c.cost = costOf(price, c.usage)
	}
	return c
}

// allowance counts an agent's use of models in a trial against its limits.
type allowance struct {
	limits eval.ModelLimits

	mu       sync.Mutex
	requests int64         // guarded by mu, like the following fields
	usage    dialect.Usage // of calls that have ended
	assumed  int64         // tokens in usage that no answer reported
	cost     float64       // US dollars
	kept     int64         // bytes recorded
	refused  int
	why      string // the first refusal

	held    dialect.Usage // claims of running calls
	holding float64       // their costs
	ended   chan struct{} // closed when one of them ends

	running map[*hold]bool
	took    time.Duration // total duration of all calls up to since
	since   time.Time
	timer   *time.Timer // fires when seconds are used up
}

// hold is a running call.
type hold struct {
	claim
	cut context.CancelCauseFunc // ends the call at the time limit
}

func newAllowance(limits eval.ModelLimits) *allowance {
	limits.Requests = cmp.Or(limits.Requests, DefaultRequests)
	return &allowance{limits: limits, running: map[*hold]bool{}, ended: make(chan struct{})}
}

// take admits a call, or returns which limit it exceeds. The caller must end the call with give. A
// call whose claim does not fit next to those of running calls waits until some of them have ended.
// If ctx ends first, take returns nothing.
func (a *allowance) take(ctx context.Context, c claim, cut context.CancelCauseFunc) (*hold, string) {
	for {
		h, why, ended := a.admit(c, cut)
		if h != nil || why != "" {
			return h, why
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return nil, ""
		}
	}
}

// admit admits a call immediately, or returns why it never can be, or a channel to wait for.
func (a *allowance) admit(c claim, cut context.CancelCauseFunc) (h *hold, why string, ended chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clock()
	if why = a.refusal(c); why != "" {
		a.refused++
		a.why = cmp.Or(a.why, why)
		return nil, why, nil
	}
	l := a.limits
	beside := a.held.Plus(c.usage).Plus(a.usage)
	fits := (l.Tokens == 0 || beside.Total() <= l.Tokens) && (l.Cost == 0 || a.cost+a.holding+c.cost <= l.Cost)
	if defence.CountedAsking && len(a.running) > 0 && c.answers > 0 && !fits {
		return nil, "", a.ended
	}
	h = &hold{c, cut}
	a.running[h] = true
	a.requests += max(1, c.answers)
	a.recount()
	return h, "", nil
}

// refusal returns which limit a call exceeds regardless of running calls. A single answer may
// exceed what is left; several must fit together.
func (a *allowance) refusal(c claim) string {
	seconds := time.Duration(a.limits.Seconds) * time.Second
	several := c.answers > 1 && defence.CountedAsking
	switch l := a.limits; {
	case max(1, c.answers) > int64(l.Requests)-a.requests:
		return fmt.Sprintf("the agent made more than %d requests to models", l.Requests)
	case l.Tokens > 0 && a.usage.Total() >= l.Tokens:
		return fmt.Sprintf("the agent's model calls took %d tokens of %d%s", a.usage.Total(), l.Tokens, a.unseen())
	case l.Tokens > 0 && several && a.usage.Plus(c.usage).Total() > l.Tokens:
		return fmt.Sprintf("the agent asked for %d answers at once, which may take %d tokens; %d are left", c.answers, c.usage.Total(), l.Tokens-a.usage.Total())
	case l.Cost > 0 && !c.priced:
		return fmt.Sprintf("the agent asked for the model %q, whose cost is limited but which has no price; add one in config.models", c.model)
	case l.Cost > 0 && a.cost >= l.Cost:
		return fmt.Sprintf("the agent's model calls cost %.4f of %.4f US dollars%s", a.cost, l.Cost, a.unseen())
	case l.Cost > 0 && several && a.cost+c.cost > l.Cost:
		return fmt.Sprintf("the agent asked for %d answers at once, which may cost %.4f US dollars; %.4f are left", c.answers, c.cost, l.Cost-a.cost)
	case seconds > 0 && a.took >= seconds:
		return fmt.Sprintf("the agent's model calls took longer than %s together", seconds)
	case a.kept >= maxKeptInAll:
		return fmt.Sprintf("the agent and its models exchanged more than %d bytes", int64(maxKeptInAll))
	}
	return ""
}

// unseen describes how much of the usage no answer reported.
func (a *allowance) unseen() string {
	if a.assumed == 0 {
		return ""
	}
	return fmt.Sprintf(", counting the %d tokens that were asked for in calls whose answers did not say what they took", a.assumed)
}

// give ends a call, and adds its usage.
func (a *allowance) give(h *hold, took dialect.Usage, assumed int64, cost float64, kept int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clock()
	delete(a.running, h)
	a.usage, a.assumed, a.cost, a.kept = a.usage.Plus(took), a.assumed+assumed, a.cost+cost, a.kept+kept
	a.recount()
	close(a.ended)
	a.ended = make(chan struct{})
}

// recount adds up the claims of running calls, and sets the timer for when they use up the seconds.
// The caller holds mu and has called clock.
func (a *allowance) recount() {
	a.held, a.holding = dialect.Usage{}, 0
	for h := range a.running {
		a.held, a.holding = a.held.Plus(h.usage), a.holding+h.cost
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	if seconds, n := time.Duration(a.limits.Seconds)*time.Second, time.Duration(len(a.running)); seconds > 0 && n > 0 {
		a.timer = time.AfterFunc((max(0, seconds-a.took)+n-1)/n, a.timeUp)
	}
}

// clock adds the time since its last call for each running call. The caller holds mu.
func (a *allowance) clock() {
	now := time.Now()
	a.took += now.Sub(a.since) * time.Duration(len(a.running))
	a.since = now
}

// timeUp ends all running calls if the seconds are used up.
func (a *allowance) timeUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.clock(); a.took < time.Duration(a.limits.Seconds)*time.Second {
		return // a call has ended in the meantime, which set another timer
	}
	for h := range a.running {
		h.cut(errTimeUp)
	}
}

// keep adds bytes recorded of a refused request.
func (a *allowance) keep(kept int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kept += kept
}

// exhausted reports whether the agent must be stopped, because too many requests were
// refused or too much was recorded.
func (a *allowance) exhausted() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused >= maxRefused || a.refused > 0 && a.kept > maxKeptInAll+maxMemory
}

// overspent returns why the first request was refused or cut off at a limit, or "".
func (a *allowance) overspent() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.why
}

// blame records why a call was cut off at a limit, unless a request was refused before.
func (a *allowance) blame(why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.why = cmp.Or(a.why, why)
}

// costOf returns the cost of usage at a price, in US dollars, up to maxCost.
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
