package trial

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waza-isolate/waza/sandbox/process"
)

// stopCause is the reason why waiting for an agent ended.
type stopCause int

const (
	byItself       stopCause = iota
	timeLimit                // it reached its time limit
	noFirstEvent             // it did nothing within the time limit for a first event
	outputLimit              // it wrote more than its output limit
	dependencyLost           // something that it needs was lost
	budgetLimit              // it kept asking models after its budget was used up
	noAnswer                 // the trial's cassette has no answer to what was asked
)

// stop is a reason to stop the agent, and when it became known.
type stop struct {
	at    time.Time
	cause stopCause
}

// stops collects the reasons to stop an agent, which limits and watchers find in the background.
type stops struct {
	now   func() time.Time
	first chan struct{} // closed at the first one

	mu    sync.Mutex
	known []stop // guarded by mu
}

func newStops(now func() time.Time) *stops { return &stops{now: now, first: make(chan struct{})} }

func (s *stops) add(cause stopCause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known = append(s.known, stop{s.now(), cause}); len(s.known) == 1 {
		close(s.first)
	}
}

// soFar returns the stops that are known.
func (s *stops) soFar() []stop {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.known)
}

// agentClock adds to stops at the agent's time limit. Pauses do not count.
type agentClock struct {
	stops *stops

	mu      sync.Mutex
	timer   *time.Timer   // guarded by mu
	left    time.Duration // time left when the timer was last started; guarded by mu
	started time.Time     // start of the current turn or pause; guarded by mu
	stood   time.Duration // total length of pauses; guarded by mu
}

func startAgentClock(limit time.Duration, stops *stops) *agentClock {
	c := &agentClock{stops: stops, left: limit, started: time.Now()}
	c.timer = time.AfterFunc(limit, func() { stops.add(timeLimit) })
	return c
}

// begins adds to stops if acted is not set within limit. A limit of 0 means none.
func (c *agentClock) begins(limit time.Duration, acted *atomic.Bool) (stop func() bool) {
	if limit == 0 {
		return func() bool { return true }
	}
	return time.AfterFunc(limit, func() {
		if !acted.Load() {
			c.stops.add(noFirstEvent)
		}
	}).Stop
}

func (c *agentClock) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer.Stop()
	c.left -= time.Since(c.started)
	c.started = time.Now()
}

func (c *agentClock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stood += time.Since(c.started)
	c.started = time.Now()
	c.timer.Reset(max(0, c.left))
}

func (c *agentClock) paused() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stood
}

// stop releases the timer.
func (c *agentClock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer.Stop()
}

// watcher watches the containers of servers while the agent runs. Each exit is recorded as an
// event. If somebody outside the trial caused one, that is a reason to stop the agent.
type watcher struct {
	stop     context.CancelFunc
	watchers sync.WaitGroup
}

func (s *stage) watch(ctx context.Context, stops *stops) *watcher {
	watching, stop := context.WithCancel(ctx)
	w := &watcher{stop: stop}
	for _, m := range s.members() {
		gone := m.sandbox.Gone(m.container)
		w.watchers.Go(func() {
			select {
			case <-gone:
			case <-watching.Done():
				if !process.IsClosed(gone) {
					return
				}
			}
			e := m.sandbox.Ended(ctx, m.container)
			if ctx.Err() != nil {
				return
			}
			s.log.recordExit(m.container, e)
			if e.Foreign() {
				stops.add(dependencyLost)
			}
		})
	}
	return w
}

// close stops watching. When it returns, the exits of all containers that are gone are
// recorded, even if the agent exited right after them.
func (w *watcher) close() {
	w.stop()
	w.watchers.Wait()
}
