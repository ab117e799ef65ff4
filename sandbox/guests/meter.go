package guests

import (
	"context"
	"slices"
	"sync"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox/guest"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// meter keeps a container's resource usage as reported by its guest. It reports each limit that
// the container reaches, once.
type meter struct {
	container string
	dirs      []string // directories with a size limit
	report    func(evidence.Event)

	mu       sync.Mutex
	seen     *observe.Usage  // nil before the first report; guarded by mu
	reported map[string]bool // kinds of breach; guarded by mu
}

// newMeter returns the meter of a container. dirs are its directories with a size limit.
func newMeter(container string, dirs []string, report func(evidence.Event)) *meter {
	return &meter{container: container, dirs: dirs, report: report, reported: map[string]bool{}}
}

// watch makes the guest report breaches until it ends.
func (m *meter) watch(ctx context.Context, g *guest.Guest) error {
	used, err := g.Watch(ctx, m.dirs, func(u observe.Usage) { m.addUsage(u) })
	if err == nil {
		m.addUsage(used)
	}
	return err
}

// used returns the container's usage: the current one, or the last known if the guest does not
// answer. In that case starved is called, which reports whether the container ran out of memory
// according to the engine.
func (m *meter) used(ctx context.Context, g *guest.Guest, starved func(context.Context) bool) (observe.Usage, error) {
	now, err := g.Usage(ctx, m.dirs)
	if err == nil {
		return m.addUsage(now), nil
	}
	if starved(ctx) {
		m.starve()
	}
	if seen := m.last(); seen != nil {
		return *seen, nil
	}
	return observe.Usage{}, err
}

// addUsage adds a report of the guest, and returns the usage so far.
func (m *meter) addUsage(u observe.Usage) observe.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen != nil {
		u = m.seen.With(u)
	}
	m.seen = &u
	for _, b := range u.Breaches() {
		if !m.reported[b.Kind] {
			m.reported[b.Kind] = true
			m.report(evidence.Event{Kind: b.Kind, Where: m.container, Message: "the container " + b.What})
		}
	}
	return u
}

// last returns the last known usage, or nil.
func (m *meter) last() *observe.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen
}

// starve records that the container ran out of memory if its guest could not report that: if
// files use up the memory, there is none left for process 1 either.
func (m *meter) starve() {
	if seen := m.last(); seen == nil || seen.OOMKills == nil || *seen.OOMKills == 0 {
		kills := int64(1)
		m.addUsage(observe.Usage{OOMKills: &kills})
	}
}

// unseen returns which parts of the containers' usage cannot be measured by one of their
// guests. seen is the last known usage of each; may contain nil.
func unseen(seen []*observe.Usage) (missing []string) {
	for _, look := range []struct {
		what string
		sees func(*observe.Usage) bool
	}{
		{"how much memory containers use", func(u *observe.Usage) bool { return u.Memory != nil }},
		{"whether containers run out of memory", func(u *observe.Usage) bool { return u.OOMKills != nil }},
		{"how many processes containers have", func(u *observe.Usage) bool { return u.Pids != nil }},
		{"whether containers run out of processes", func(u *observe.Usage) bool { return u.ForksRefused != nil }},
		{"how much CPU time containers use", func(u *observe.Usage) bool { return u.CPU != nil }},
	} {
		if slices.ContainsFunc(seen, func(u *observe.Usage) bool { return u == nil || !look.sees(u) }) {
			missing = append(missing, look.what+" cannot be seen: the kernel does not tell it there")
		}
	}
	return missing
}
