package serve

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/waza-isolate/waza/mcp/sse"
)

const (
	// maxWatchers is how many clients may watch runs at once.
	maxWatchers = 128
	// beat is how often a client is sent the progress when nothing changes.
	beat = 5 * time.Second
)

var errTooMany = errors.New("too many pages watch runs already")

// watches has clients watch runs.
type watches struct {
	index   *index
	every   time.Duration // between looks at a run
	beat    time.Duration // between events when nothing changes
	now     func() time.Time
	clients chan struct{} // one for each that watches
}

func newWatches(x *index, every time.Duration, now func() time.Time) *watches {
	return &watches{index: x, every: every, beat: beat, now: now, clients: make(chan struct{}, maxWatchers)}
}

// join counts a client that watches, until it leaves.
func (w *watches) join() (leave func(), err error) {
	select {
	case w.clients <- struct{}{}:
		return func() { <-w.clients }, nil
	default:
		return nil, errTooMany
	}
}

// send sends the progress of a run as it changes. It ends when the run has, the client goes
// away or is too slow, or the server ends.
func (w *watches) send(ctx context.Context, to http.ResponseWriter, id string) {
	control := http.NewResponseController(to)
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	var sent sighting
	var at time.Time
	for {
		seen := w.sight(id)
		if seen.err != nil {
			_ = sendEvent(to, "end", StateUnreadable)
			return
		}
		if seen.reported != sent.reported { // another run of that name
			sent = sighting{reported: seen.reported}
		}
		if seen.run.State != sent.run.State || seen.version != sent.version || time.Since(at) >= w.beat {
			now := w.describe(seen, sent.version)
			seen.version = now.Version
			over := !seen.run.live()
			if sendEvent(to, "progress", now) != nil || over && sendEvent(to, "end", now.State) != nil || control.Flush() != nil || over {
				return
			}
			sent, at = seen, time.Now()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func sendEvent(w http.ResponseWriter, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = sse.Message{Type: name, Data: data}.WriteTo(w)
	return err
}

// sighting is what a look at a run finds.
type sighting struct {
	run      Run
	reported *tracker // nil for one that had ended when it was first seen
	version  int      // of its account
	err      error    // why nothing was found
}

// sight looks at a run, and at what its agents call.
func (w *watches) sight(id string) (s sighting) {
	if s.run, s.err = w.index.find(id); s.err != nil {
		return s
	}
	if s.reported = w.index.tracker(id); s.reported == nil {
		return s
	}
	s.reported.look(w.index, w.every)
	_, s.version = s.reported.counts()
	return s
}

// progress is how far a run has come that is at work or not.
func (w *watches) progress(id string) (RunProgress, error) {
	s := w.sight(id)
	if s.err != nil {
		return RunProgress{}, s.err
	}
	if s.reported == nil {
		s.reported = newTracker(id)
		s.reported.read(w.index)
	}
	return w.describe(s, 0), nil
}

// describe returns what was sighted, with the trials that have changed since a version.
func (w *watches) describe(s sighting, since int) RunProgress {
	run, reported := s.run, newTracker("").account(0)
	if s.reported != nil {
		reported = s.reported.account(since)
	}
	r := RunProgress{
		Run: run.ID, State: run.State, Started: run.Started, Workers: run.workers, Planned: run.Planned,
		Done: reported.done, Outcomes: reported.outcomes, Version: reported.version, Trials: reported.trials,
	}
	switch {
	case run.live() && !run.Started.IsZero():
		r.ElapsedMS = max(0, w.now().Sub(run.Started).Milliseconds())
	case !run.Ended.IsZero():
		r.ElapsedMS = run.DurationMS
	case !run.Started.IsZero() && !reported.last.IsZero(): // it was killed
		r.ElapsedMS = max(0, reported.last.Sub(run.Started).Milliseconds())
	}
	if run.State == StateRunning && s.reported != nil {
		if left, known := s.reported.left(run.Planned, run.workers, w.now()); known {
			r.LeftMS = new(left.Milliseconds())
		}
	}
	return r
}
