package containers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox/guest"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// usageTimeout bounds asking a guest that may be frozen.
const usageTimeout = 5 * time.Second

// meter is what a container used, by its guest's word, which can blame nobody but
// itself. It tells of each limit that the container runs into, once.
type meter struct {
	container string
	dirs      []string // of limited size
	tell      func(evidence.Event)

	mu   sync.Mutex
	seen *observe.Usage  // nil before the first word; guarded by mu
	told map[string]bool // kinds of breach; guarded by mu
}

func newMeter(c containerPlan, tell func(evidence.Event)) *meter {
	return &meter{container: c.container, dirs: slices.Sorted(maps.Keys(c.host.Tmpfs)), tell: tell, told: map[string]bool{}}
}

// attend has the guest tell of breaches until it ends.
func (m *meter) attend(ctx context.Context, g *guest.Guest) error {
	used, err := g.Watch(ctx, m.dirs, func(u observe.Usage) { m.take(u) })
	if err == nil {
		m.take(used)
	}
	return err
}

// take keeps what a guest says, and returns all that it said so far.
func (m *meter) take(u observe.Usage) observe.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen != nil {
		u = m.seen.With(u)
	}
	m.seen = &u
	for _, b := range u.Breaches() {
		if !m.told[b.Kind] {
			m.told[b.Kind] = true
			m.tell(evidence.Event{Kind: b.Kind, Where: m.container, Message: "the container " + b.What})
		}
	}
	return u
}

// last is what the guest said last, nil before.
func (m *meter) last() *observe.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen
}

// starve notes that the container ran out of memory, where its guest could not say so:
// memory full of files, which no program holds, has no room for process 1 either.
func (m *meter) starve() {
	if last := m.last(); last == nil || last.OOMKills == nil || *last.OOMKills == 0 {
		kills := int64(1)
		m.take(observe.Usage{OOMKills: &kills})
	}
}

// Usage implements sandbox.Sandbox.
func (s *trialSandbox) Usage(ctx context.Context, name string) (evidence.Usage, error) {
	b, ok := s.containers[name]
	if !ok {
		return evidence.Usage{}, fmt.Errorf("trial has no container %q", name)
	}
	ctx, cancel := context.WithTimeout(ctx, usageTimeout)
	defer cancel()
	used, err := b.guest.Usage(ctx, b.meter.dirs)
	if err != nil && b.followed.starved(ctx) {
		b.meter.starve()
	}
	switch last := b.meter.last(); {
	case err == nil:
		return b.meter.take(used), nil
	case last != nil:
		return *last, nil
	}
	return evidence.Usage{}, err
}

// unseen names what of the containers' use their guests cannot see.
func (s *trialSandbox) unseen() []string {
	var missing []string
	for _, look := range []struct {
		what string
		sees func(observe.Usage) bool
	}{
		{"how much memory containers use", func(u observe.Usage) bool { return u.Memory != nil }},
		{"whether containers run out of memory", func(u observe.Usage) bool { return u.OOMKills != nil }},
		{"how many processes containers have", func(u observe.Usage) bool { return u.Pids != nil }},
		{"whether containers run out of processes", func(u observe.Usage) bool { return u.ForksRefused != nil }},
		{"how much CPU time containers use", func(u observe.Usage) bool { return u.CPU != nil }},
	} {
		for _, b := range s.containers {
			if last := b.meter.last(); last == nil || !look.sees(*last) {
				missing = append(missing, look.what+" cannot be seen: the kernel does not tell it there")
				break
			}
		}
	}
	return missing
}
