package runner

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox/observe"
)

type machine struct {
	cpus   int
	memory int64
}

func (m machine) Size() (int, int64) { return m.cpus, m.memory }

// used is a trial of ten seconds that has used so much.
func used(memory int64, seconds float64) evidence.Trial {
	start := time.Now()
	return evidence.Trial{Started: start, Ended: start.Add(10 * time.Second), Resources: map[string]evidence.Resource{
		"agent": {Used: &observe.Usage{Memory: &observe.Level{Peak: memory / 2}, CPU: &seconds}},
		"stock": {Used: &observe.Usage{Memory: &observe.Level{Peak: memory / 2}}}, "gone": {},
	}}
}

func TestGovernor(t *testing.T) {
	const gib = 1 << 30
	type step struct {
		trial   evidence.Trial
		refused int
		limit   int
		reason  string
	}
	for _, test := range []struct {
		name    string
		size    machine
		trials  int
		allowed int64
		first   int
		steps   []step
	}{
		{"few trials", machine{8, 64 * gib}, 3, gib, 3, nil},
		{"processors at first", machine{2, 64 * gib}, 100, gib, 4, []step{
			{used(gib/10, 1), 0, 20, "a trial keeps 0.10 of 2 processors busy"},
			{used(gib/10, 9), 0, 4, "a trial keeps 0.50 of 2 processors busy"},
		}},
		{"memory", machine{64, 8 * gib}, 100, 4 * gib, 6, []step{
			{used(2*gib, 0), 0, 3, "a trial uses up to 2GiB of 6GiB of memory"},
			{used(gib, 0), 0, 3, "a trial uses up to 2GiB"},
			{used(20*gib, 0), 0, 1, "a trial uses up to 20GiB"},
		}},
		{"models", machine{64, 640 * gib}, 100, gib, 32, []step{
			{used(1, 0), 2, 16, "models refuse more requests (429)"},
			{used(1, 0), 1, 8, "models"},
			{used(1, 0), 0, 9, "models"},
		}},
	} {
		var said []string
		g := newGovernor(test.size, test.trials, test.allowed, func(s string) { said = append(said, s) })
		if g.limit != test.first {
			t.Errorf("%s: %d at first, want %d", test.name, g.limit, test.first)
		}
		for i, s := range test.steps {
			g.mu.Lock()
			g.learn(s.trial, s.refused)
			g.decide()
			g.mu.Unlock()
			if g.limit != s.limit || !strings.Contains(g.reason, s.reason) {
				t.Errorf("%s: after %d: %d, %s; want %d, %s", test.name, i+1, g.limit, g.reason, s.limit, s.reason)
			}
		}
		if changed := len(slices.Compact(said)); changed != len(said) {
			t.Errorf("%s: the same is said twice: %q", test.name, said)
		}
	}
	if g := newGovernor(machine{}, 10, 0, func(string) {}); g.limit < 1 {
		t.Errorf("of an engine that does not say its size: %d", g.limit)
	}
}

// A trial waits while as many as there may be are at work, and no longer than its context.
func TestGovernorWaits(t *testing.T) {
	one := &plan.Trial{Task: "a", Number: 1}
	g := newGovernor(machine{64, 1 << 40}, 1, 1<<30, func(string) {})
	if err := g.enter(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- g.enter(ctx, one) }()
	cancel()
	if err := <-ended; err == nil {
		t.Error("two are at work")
	}
	go func() { ended <- g.enter(t.Context(), one) }()
	g.leave(one, nil)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
