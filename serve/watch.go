package serve

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// maxWatchers is how many clients may watch runs at once.
	maxWatchers = 128
	// beat is how often a client is told how things stand when nothing changes.
	beat = 5 * time.Second
)

var errTooMany = errors.New("too many pages watch runs already")

// watches polls the runs that clients watch: each run once, however many clients there are.
type watches struct {
	index *index
	every time.Duration // between looks
	beat  time.Duration // between events when nothing changes
	now   func() time.Time

	mu      sync.Mutex
	runs    map[string]*watch // by id; guarded by mu
	clients int               // guarded by mu
	ended   sync.WaitGroup    // of their goroutines
}

// watch is one run that somebody watches.
type watch struct {
	clients map[*client]bool // guarded by watches.mu
	stop    context.CancelFunc
	last    sighting // guarded by watches.mu
}

// client is notified that there is something new. It looks up itself what that is, so that one
// that is slow misses what came between and nothing else.
type client struct {
	news chan struct{}
	run  *watch
}

func newWatches(s *index, every time.Duration, now func() time.Time) *watches {
	return &watches{index: s, every: every, beat: beat, now: now, runs: map[string]*watch{}}
}

// join notifies a client of changes of a run until it leaves.
func (w *watches) join(ctx context.Context, id string) (c *client, leave func(), err error) {
	if _, err := w.index.find(id); err != nil {
		return nil, nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.clients == maxWatchers {
		return nil, nil, errTooMany
	}
	run := w.runs[id]
	if run == nil {
		looking, stop := context.WithCancel(context.WithoutCancel(ctx))
		run = &watch{clients: map[*client]bool{}, stop: stop}
		w.runs[id] = run
		w.ended.Go(func() { w.look(looking, id, run) })
	}
	c = &client{news: make(chan struct{}, 1), run: run}
	c.tell()
	run.clients[c] = true
	w.clients++
	return c, func() { w.leave(id, run, c) }, nil
}

func (w *watches) leave(id string, run *watch, c *client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(run.clients, c)
	w.clients--
	if len(run.clients) == 0 {
		run.stop()
		delete(w.runs, id)
	}
}

// look polls a run, and notifies its clients of what is new.
func (w *watches) look(ctx context.Context, id string, run *watch) {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		w.tell(run, w.sight(id))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sighting is what a look at a run finds.
type sighting struct {
	run     Run
	told    *tracker // nil for one that had ended when it was first seen
	version int      // of its account
	err     error    // why nothing was found
}

func (s sighting) same(other sighting) bool {
	return s.run.State == other.run.State && s.version == other.version && s.told == other.told && (s.err == nil) == (other.err == nil)
}

// sight looks at a run, and at what its agents call.
func (w *watches) sight(id string) (s sighting) {
	if s.run, s.err = w.index.find(id); s.err != nil {
		return s
	}
	if s.told = w.index.tracker(id); s.told == nil {
		return s
	}
	s.told.look(w.index)
	_, s.version = s.told.counts()
	return s
}

func (w *watches) tell(run *watch, now sighting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := run.last.run.ID == "" && run.last.err == nil
	same := !first && now.same(run.last)
	run.last = now
	if same {
		return
	}
	for c := range run.clients {
		c.tell()
	}
}

// tell notifies the client, unless a notification is pending.
func (c *client) tell() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// latest is what was last seen of the run that a client watches; false before anything
// was.
func (w *watches) latest(c *client) (sighting, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := c.run.last
	return last, last.run.ID != "" || last.err != nil
}

// progress is how far a run has come that is at work or not.
func (w *watches) progress(id string) (RunProgress, error) {
	s := w.sight(id)
	if s.err != nil {
		return RunProgress{}, s.err
	}
	if s.told == nil {
		s.told = newTracker(id)
		s.told.read(w.index)
	}
	return w.describe(s, 0), nil
}

// describe returns what was sighted, with the trials that have changed since a version.
func (w *watches) describe(s sighting, since int) RunProgress {
	run, told := s.run, newTracker("").account(0)
	if s.told != nil {
		told = s.told.account(since)
	}
	r := RunProgress{
		Run: run.ID, State: run.State, Started: run.Started, Workers: run.workers, Planned: run.Planned,
		Done: told.done, Outcomes: told.outcomes, Version: told.version, Trials: told.trials,
	}
	switch {
	case run.live() && !run.Started.IsZero():
		r.ElapsedMS = max(0, w.now().Sub(run.Started).Milliseconds())
	case !run.Ended.IsZero():
		r.ElapsedMS = run.DurationMS
	case !run.Started.IsZero() && !told.last.IsZero(): // it was killed
		r.ElapsedMS = max(0, told.last.Sub(run.Started).Milliseconds())
	}
	if run.State == StateRunning && s.told != nil {
		if left, known := s.told.left(run.Planned, run.workers, w.now()); known {
			r.LeftMS = new(left.Milliseconds())
		}
	}
	return r
}
