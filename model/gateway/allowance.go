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

// DefaultRequests is how many requests an agent may make in a trial.
const DefaultRequests = 1000

// maxRefused is how many requests beyond its limits an agent may make before it is ended. Each
// is recorded.
const maxRefused = 100

// maxCost is the most that a call is counted as, in US dollars, so that sums stay numbers.
const maxCost = 1e15

// assumedOutput is how many tokens an answer is assumed to take at most, if its request names no
// maximum.
const assumedOutput = 128 << 10

// claim is what a request asks for, which is what its call takes at most.
type claim struct {
	answers int64 // 0 if the request is no model's turn
	usage   dialect.Usage
	cost    float64 // US dollars
	model   string
	priced  bool // or costs nothing
}

// asking returns the claim of a request for a model's turn, by its size in bytes. A token has at
// least one byte.
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
	assumed  int64         // tokens of usage that no answer told of
	cost     float64       // US dollars
	kept     int64         // bytes that were recorded
	refused  int
	why      string // the first refusal

	held    dialect.Usage // claims of the calls under way
	holding float64       // their costs
	ended   chan struct{} // closed when one of them ends

	running map[*hold]bool
	took    time.Duration // of all calls together, up to since
	since   time.Time
	timer   *time.Timer // when seconds are used up
}

// hold is a call under way.
type hold struct {
	claim
	cut context.CancelCauseFunc // ends the call when time is up
}

func newAllowance(limits eval.ModelLimits) *allowance {
	limits.Requests = cmp.Or(limits.Requests, DefaultRequests)
	return &allowance{limits: limits, running: map[*hold]bool{}, ended: make(chan struct{})}
}

// take admits a call, which the caller gives back, or returns why it exceeds a limit. A call whose
// claim does not fit beside those under way waits until some of these have ended. If ctx ends
// meanwhile, take returns nothing.
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

// admit admits a call now, or returns why never, or what to wait for.
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

// refusal returns why a call exceeds a limit, whatever those under way take. One answer may take
// more than is left; several together must fit.
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

// unseen says how much of the usage no answer told of.
func (a *allowance) unseen() string {
	if a.assumed == 0 {
		return ""
	}
	return fmt.Sprintf(", counting the %d tokens that were asked for in calls whose answers did not say what they took", a.assumed)
}

// give ends a call, and adds what it took.
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

// recount adds up the claims of the calls under way, and sets the time at which they use up the
// seconds. The caller holds mu and has called clock.
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

// clock adds the time since it was last called to that of all calls under way. The caller holds mu.
func (a *allowance) clock() {
	now := time.Now()
	a.took += now.Sub(a.since) * time.Duration(len(a.running))
	a.since = now
}

// timeUp ends all calls under way, if the seconds are used up.
func (a *allowance) timeUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.clock(); a.took < time.Duration(a.limits.Seconds)*time.Second {
		return // a call has ended meanwhile, and there is another timer
	}
	for h := range a.running {
		h.cut(errTimeUp)
	}
}

// keep adds bytes that were recorded of a request that was refused.
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
