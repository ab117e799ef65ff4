package guests

import (
	"context"
	"slices"
	"sync"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox/guest"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// Meter keeps a container's resource usage as reported by its guest. It reports each limit that
// the container reaches, once.
type Meter struct {
	container string
	dirs      []string // directories with a size limit
	report    func(evidence.Event)

	mu       sync.Mutex
	seen     *observe.Usage  // nil before the first report; guarded by mu
	reported map[string]bool // kinds of breach; guarded by mu
}

// NewMeter returns the meter of a container. dirs are its directories with a size limit.
func NewMeter(container string, dirs []string, report func(evidence.Event)) *Meter {
	return &Meter{container: container, dirs: dirs, report: report, reported: map[string]bool{}}
}

// Watch makes the guest report breaches until it ends.
func (m *Meter) Watch(ctx context.Context, g *guest.Guest) error {
	used, err := g.Watch(ctx, m.dirs, func(u observe.Usage) { m.Take(u) })
	if err == nil {
		m.Take(used)
	}
	return err
}

// Used returns the container's usage: the current one, or the last known if the guest does not
// answer. In that case starved is called, which reports whether the container ran out of memory
// according to the engine.
func (m *Meter) Used(ctx context.Context, g *guest.Guest, starved func(context.Context) bool) (observe.Usage, error) {
	used, err := g.Usage(ctx, m.dirs)
	if err == nil {
		return m.Take(used), nil
	}
	if starved(ctx) {
		m.starve()
	}
	if last := m.Last(); last != nil {
		return *last, nil
	}
	return observe.Usage{}, err
}

// Take adds a report of the guest, and returns the usage so far.
func (m *Meter) Take(u observe.Usage) observe.Usage {
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

// Last returns the last known usage, or nil.
func (m *Meter) Last() *observe.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen
}

// starve records that the container ran out of memory if its guest could not report that: if
// files use up the memory, there is none left for process 1 either.
func (m *Meter) starve() {
	if last := m.Last(); last == nil || last.OOMKills == nil || *last.OOMKills == 0 {
		kills := int64(1)
		m.Take(observe.Usage{OOMKills: &kills})
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
