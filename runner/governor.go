package runner

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/docker/go-units"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/runner/plan"
)

const (
	// maxGoverned is the maximum number of concurrent trials under a governor.
	maxGoverned = 32
	// assumedMemory is the assumed memory of a trial, in bytes, until the first one has completed,
	// unless its limits are lower.
	assumedMemory = 1 << 30
	// minStarts is how many trials may be starting at once even on a small machine. Engines
	// do not start more containers any faster.
	minStarts = 4
)

// Sized is a [Backend] that knows the size of its machine.
type Sized interface {
	Size() (cpus int, memory int64) // Size returns the number of CPUs, and the memory in bytes.
}

// governor determines how many trials run at once if that is not configured. It considers the
// CPU time and memory that completed trials have used, and how often models have refused
// requests.
type governor struct {
	cpus   float64
	memory float64 // bytes for all trials
	most   int     // maximum number of trials
	report func(string)

	mu      sync.Mutex
	changed *sync.Cond
	atWork  int                   // running trials; this and the following are guarded by mu
	starts  map[plan.TrialID]bool // running trials whose agents have not started yet
	peak    float64               // most memory that a trial has used, in bytes
	busy    float64               // average number of CPUs that a trial keeps busy
	ended   int
	models  float64 // number of trials that models can serve; +Inf until one refuses a request
	limit   int
	reason  string
}

// newGovernor returns the governor of a run, or nil if it has none. A nil governor imposes no
// limit.
func (s *scheduler) newGovernor(trials []*plan.Trial) *governor {
	size, ok := s.backend.(Sized)
	if !ok || !s.o.Govern {
		return nil
	}
	var allowed int64
	for _, t := range trials {
		memory := int64(0)
		for _, c := range t.Containers() {
			memory += c.Memory
		}
		allowed = max(allowed, memory)
	}
	return newGovernor(size, len(trials), allowed, s.o.Say)
}

// newGovernor returns a governor for trials with allowed bytes of memory each.
func newGovernor(size Sized, trials int, allowed int64, report func(string)) *governor {
	cpus, memory := size.Size()
	g := &governor{
		cpus: float64(max(cpus, 1)), memory: float64(memory) * 3 / 4, most: min(trials, maxGoverned), report: report,
		peak: float64(min(allowed, assumedMemory)), models: math.Inf(1), starts: map[plan.TrialID]bool{},
	}
	g.changed = sync.NewCond(&g.mu)
	g.decide()
	return g
}

// decide updates the limit and its reason.
func (g *governor) decide() {
	limit, reason := float64(g.most), "more bring nothing"
	lower := func(to float64, why string) {
		if to = max(1, math.Floor(to)); to < limit {
			limit, reason = to, why
		}
	}
	if g.ended == 0 {
		lower(2*g.cpus, "twice the number of processors, until one has ended")
	} else if g.busy > 0 {
		lower(g.cpus/g.busy, fmt.Sprintf("a trial keeps %.2f of %.0f processors busy", g.busy, g.cpus))
	}
	if g.peak > 0 {
		lower(g.memory/g.peak, fmt.Sprintf("a trial uses up to %s of %s of memory", units.BytesSize(g.peak), units.BytesSize(g.memory)))
	}
	lower(g.models, "models refuse more requests (429)")
	if int(limit) != g.limit && int(limit) < g.most {
		g.report(fmt.Sprintf("up to %s at once: %s", text.Count(int(limit), "trial"), reason))
	}
	g.limit, g.reason = int(limit), reason
	g.changed.Broadcast()
}

// enter waits until another trial may start.
func (g *governor) enter(ctx context.Context, t *plan.Trial) error {
	if g == nil {
		return nil
	}
	defer context.AfterFunc(ctx, g.wake)()
	g.mu.Lock()
	defer g.mu.Unlock()
	for (g.atWork >= g.limit || len(g.starts) >= max(minStarts, int(g.cpus))) && ctx.Err() == nil {
		g.changed.Wait()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	g.atWork++
	g.starts[t.ID()] = true
	return nil
}

// started records that a trial's agent has started.
func (g *governor) started(t *plan.Trial) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.starts, t.ID())
	g.changed.Broadcast()
}

func (g *governor) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.changed.Broadcast()
}

// leave records that a trial has ended, and adjusts the limit. The result is nil if it has no
// outcome.
func (g *governor) leave(t *plan.Trial, result *Result) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.atWork--
	delete(g.starts, t.ID())
	if result != nil {
		g.learn(result.Trial, refusals(result.Dir))
	}
	g.decide()
}

// learn records a trial's resource usage, and how many of its requests models refused.
func (g *governor) learn(t evidence.Trial, refused int) {
	var memory, seconds float64
	for _, r := range t.Resources {
		if r.Used == nil {
			continue
		}
		if r.Used.Memory != nil {
			memory += float64(r.Used.Memory.Peak)
		}
		if r.Used.CPU != nil {
			seconds += *r.Used.CPU
		}
	}
	if g.ended == 0 {
		g.peak = 0
	}
	g.peak = max(g.peak, memory)
	if took := t.Ended.Sub(t.Started).Seconds(); took > 0 {
		g.busy = (g.busy*float64(g.ended) + seconds/took) / float64(g.ended+1)
	}
	g.ended++
	switch {
	case refused > 0:
		g.models = max(1, math.Floor(math.Min(g.models, float64(g.limit))/2))
	case !math.IsInf(g.models, 1):
		g.models++
	}
}

// refusals returns how many requests to models failed with status 429.
func refusals(dir evidence.Dir) (count int) {
	for call, err := range dir.ModelCalls() {
		if err != nil {
			break // grading reports the error
		}
		if call.Status == 429 {
			count++
		}
	}
	return count
}
