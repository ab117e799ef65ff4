package serve

import (
	"time"

	"github.com/waza-isolate/waza/evidence"
)

// RunProgress is how far a run has come.
type RunProgress struct {
	Run       string                 `json:"run"`               // its id
	State     State                  `json:"state"`             // as in the list of runs
	Started   time.Time              `json:"started,omitzero"`  // UTC; left out until it has run.json
	ElapsedMS int64                  `json:"elapsed_ms"`        // since then, or up to the end; of a run that was killed, up to the last that became of a trial
	Workers   int                    `json:"workers"`           // trials at once
	Planned   int                    `json:"planned_trials"`    // trials of all tasks
	Done      int                    `json:"done_trials"`       // that have an outcome
	Outcomes  map[evidence.Class]int `json:"outcomes"`          // how many of these have which
	LeftMS    *int64                 `json:"left_ms,omitempty"` // at the pace so far; left out until as many trials are done as run at once
	Version   int                    `json:"version"`           // grows with each change
	Trials    []TrialProgress        `json:"trials"`            // those that have begun; in an event, those that have changed
}

// progress is how far a run has come that is at work or not.
func (w *watches) progress(id string) (RunProgress, error) {
	s := w.sight(id)
	if s.err != nil {
		return RunProgress{}, s.err
	}
	if s.told == nil {
		p, err := openPlace(w.shelf.dir, id)
		if err != nil {
			return RunProgress{}, err
		}
		defer func() { _ = p.Close() }()
		s.told = newTracker()
		s.told.read(p)
	}
	return w.describe(s, 0), nil
}

// describe tells of what was sighted, with the trials that have changed since a version.
func (w *watches) describe(s sighting, since int) RunProgress {
	run, told := s.run, newTracker().account(0)
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
