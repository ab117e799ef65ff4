package serve

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner"
)

// State is where a run is in its life.
type State string

// States.
const (
	StateStarting    State = "starting"    // somebody is at work on it, and it has no run.json yet
	StateRunning     State = "running"     // somebody is at work on it
	StateEnded       State = "ended"       // it came to its end
	StateInterrupted State = "interrupted" // it ended early, or was killed
	StateUnreadable  State = "unreadable"  // its run.json or results.json is missing, or is none
)

// Run is a run in a list of runs.
type Run struct {
	ID         string         `json:"id"`                          // its directory's name
	Eval       string         `json:"eval"`                        // the eval's name
	Agent      string         `json:"agent"`                       // the executor
	Model      string         `json:"model,omitempty"`             // left out where the eval names none
	State      State          `json:"state"`                       // starting, running, ended, interrupted or unreadable
	Problem    string         `json:"problem,omitempty"`           // what of it cannot be read, in a sentence; left out where all can
	Isolated   bool           `json:"isolated"`                    // trials ran in containers
	Network    string         `json:"network,omitempty"`           // that these were in; left out without run.json
	Started    time.Time      `json:"started,omitzero"`            // UTC; left out without run.json
	Ended      time.Time      `json:"ended,omitzero"`              // UTC; left out until it has
	DurationMS int64          `json:"duration_ms,omitempty"`       // from the start to the end; left out until then
	Tasks      int            `json:"tasks"`                       // that it has
	Planned    int            `json:"planned_trials"`              // trials of all tasks
	Done       int            `json:"done_trials,omitempty"`       // that have an outcome; left out where none has yet, and of a run that has ended
	Verdict    results.Status `json:"verdict,omitempty"`           // passed, failed or error; left out until there are results
	Passed     int            `json:"passed_tasks"`                // tasks of which every trial that counts passed, and on which no attack succeeded
	Attacked   int            `json:"attacks_succeeded,omitempty"` // trials in which the attack succeeded; left out where it did in none
	PassRate   *float64       `json:"pass_rate,omitempty"`         // the mean over tasks of the share of trials that passed; left out without any

	workers int
}

// live says whether somebody is at work on the run.
func (r Run) live() bool { return r.State == StateStarting || r.State == StateRunning }

// readRun reads what there is of a run. What cannot be read is said in it.
func (x *index) readRun(id string) Run {
	r := Run{ID: id, State: StateUnreadable}
	record, err := x.readRecord(id)
	if err != nil {
		r.Problem = problemWith(runner.RunFile, err)
		return r
	}
	r.describe(record)
	r.State = StateInterrupted
	if !record.Ended.IsZero() && !record.Interrupted {
		r.State = StateEnded
	}
	head, err := x.readHead(id)
	switch {
	case err == nil:
		r.judge(head)
	case r.State == StateEnded || !errors.Is(err, errNotThere):
		r.State, r.Problem = StateUnreadable, problemWith(runner.ResultsFile, err)
	}
	return r
}

// problemWith is what is wrong with a file of a run, in a sentence.
func problemWith(name string, err error) string {
	if errors.Is(err, errNotThere) {
		return fmt.Sprintf("It has no %s.", name)
	}
	return fmt.Sprintf("Its %s cannot be read: %s.", name, text.Shorten(err.Error(), maxReportedMessage))
}

func (x *index) readRecord(id string) (record runner.Record, err error) {
	err = evidence.ReadJSON(x.dir, filepath.Join(id, runner.RunFile), &record)
	return record, missing(err)
}

func (x *index) readHead(id string) (results.Results, error) {
	file, err := x.open(id, runner.ResultsFile)
	if err != nil {
		return results.Results{}, err
	}
	defer func() { _ = file.Close() }()
	return results.ReadHead(file)
}

func (r *Run) describe(record runner.Record) {
	r.Eval, r.Agent, r.Model = text.Shorten(record.Eval.Name, maxReportedMessage), text.Shorten(record.Eval.Executor, maxReportedName), text.Shorten(record.Eval.Model, maxReportedMessage)
	r.Isolated, r.Network, r.Started, r.Ended = record.Isolated, text.Shorten(record.Network, maxReportedName), record.Started, record.Ended
	r.workers = record.Workers
	r.Tasks, r.Planned = len(record.Tasks), record.Planned()
	if !r.Ended.IsZero() {
		r.DurationMS = r.Ended.Sub(r.Started).Milliseconds()
	}
}

func (r *Run) judge(head results.Results) {
	s := head.Summary
	r.Passed = s.Succeeded
	if a := s.Attacks; a != nil {
		r.Passed, r.Attacked = max(r.Passed-a.TasksPassed, 0), a.Succeeded
	}
	if s.Statistics != nil && len(s.Statistics.PassAtK) > 0 {
		r.PassRate = &s.Statistics.PassAtK[0]
	}
	switch {
	case s.Failed > 0 || len(head.Unmet()) > 0:
		r.Verdict = results.StatusFailed
	case s.Succeeded < s.TotalTests || s.TotalTests == 0:
		r.Verdict = results.StatusError
	default:
		r.Verdict = results.StatusPassed
	}
}
