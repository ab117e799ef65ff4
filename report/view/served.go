package view

import (
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/results"
)

// State is the state of a run.
type State string

// States of runs.
const (
	StateStarting    State = "starting"    // live, without run.json yet
	StateRunning     State = "running"     // live
	StateEnded       State = "ended"       // completed
	StateInterrupted State = "interrupted" // ended early, or killed
	StateUnreadable  State = "unreadable"  // run.json or results.json is missing or invalid
)

// ListedRun is a run in a list of runs.
type ListedRun struct {
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

	Workers int `json:"-"` // trials at once
}

// Live reports whether a process is working on the run.
func (r ListedRun) Live() bool { return r.State == StateStarting || r.State == StateRunning }

// RunProgress is the progress of a run.
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

// Live reports whether a process is working on the run.
func (p RunProgress) Live() bool { return p.State == StateStarting || p.State == StateRunning }

// TrialProgress is the progress of a trial.
type TrialProgress struct {
	Task    string          `json:"task"`              // its id
	Number  int             `json:"number"`            // from 1
	Attempt int             `json:"attempt"`           // from 1; more where one ended as infra
	Phase   string          `json:"phase"`             // starting, probing servers, agent at work, collecting, asking the judge, once more or done
	Since   time.Time       `json:"since"`             // when it came into that phase, UTC
	Outcome evidence.Class  `json:"outcome,omitempty"` // of an attempt that has ended; left out until then
	Reason  evidence.Reason `json:"reason,omitempty"`  // for that, in a word; left out of one that passed
	Message string          `json:"message,omitempty"` // likewise, in a sentence; left out where none is told
	Call    *CallProgress   `json:"call,omitempty"`    // the newest call without an answer; left out without any
}

// CallProgress is a call without a response yet.
type CallProgress struct {
	Server string    `json:"server"` // its name
	Tool   string    `json:"tool"`   // its name
	Since  time.Time `json:"since"`  // when it was made, UTC
}

// Ended reports whether the trial has its outcome.
func (t TrialProgress) Ended() bool { return t.Phase == string(evidence.PhaseDone) }
