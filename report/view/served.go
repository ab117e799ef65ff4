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
	ID         string         `json:"id"`                          // name of the run's directory
	Eval       string         `json:"eval"`                        // name of the eval
	Agent      string         `json:"agent"`                       // executor
	Model      string         `json:"model,omitempty"`             // omitted if the eval has none
	State      State          `json:"state"`                       // starting, running, ended, interrupted or unreadable
	Problem    string         `json:"problem,omitempty"`           // why a file of the run is unreadable, in a sentence; omitted if none is
	Isolated   bool           `json:"isolated"`                    // whether trials ran in containers
	Network    string         `json:"network,omitempty"`           // network of the containers; omitted without run.json
	Started    time.Time      `json:"started,omitzero"`            // UTC; omitted without run.json
	Ended      time.Time      `json:"ended,omitzero"`              // UTC; omitted until the run has ended
	DurationMS int64          `json:"duration_ms,omitempty"`       // from start to end; omitted until the run has ended
	Tasks      int            `json:"tasks"`                       // number of tasks
	Planned    int            `json:"planned_trials"`              // planned trials of all tasks
	Done       int            `json:"done_trials,omitempty"`       // trials with an outcome; omitted if there are none, and after the run has ended
	Verdict    results.Status `json:"verdict,omitempty"`           // passed, failed or error; omitted until there are results
	Passed     int            `json:"passed_tasks"`                // tasks whose counted trials all passed without a successful attack
	Attacked   int            `json:"attacks_succeeded,omitempty"` // trials with a successful attack; omitted if there are none
	PassRate   *float64       `json:"pass_rate,omitempty"`         // mean over tasks of the share of trials that passed; omitted without trials

	EndedTasks int `json:"-"` // tasks that have ended, of which Passed passed
	Workers    int `json:"-"` // trials at once
}

// Live reports whether a process is working on the run.
func (r ListedRun) Live() bool { return r.State == StateStarting || r.State == StateRunning }

// RunProgress is the progress of a run.
type RunProgress struct {
	Run       string                 `json:"run"`               // id of the run
	State     State                  `json:"state"`             // as in the list of runs
	Started   time.Time              `json:"started,omitzero"`  // UTC; omitted without run.json
	ElapsedMS int64                  `json:"elapsed_ms"`        // time from the start until now or the end; for a killed run, until its last progress
	Workers   int                    `json:"workers"`           // number of concurrent trials
	Planned   int                    `json:"planned_trials"`    // planned trials of all tasks
	Done      int                    `json:"done_trials"`       // trials with an outcome
	Outcomes  map[evidence.Class]int `json:"outcomes"`          // number of those trials by outcome
	LeftMS    *int64                 `json:"left_ms,omitempty"` // estimated time left; omitted until as many trials are done as run concurrently
	Version   int                    `json:"version"`           // increases with each change
	Trials    []TrialProgress        `json:"trials"`            // trials that have started; in an event, those that changed
}

// Live reports whether a process is working on the run.
func (p RunProgress) Live() bool { return p.State == StateStarting || p.State == StateRunning }

// TrialProgress is the progress of a trial.
type TrialProgress struct {
	Task    string          `json:"task"`              // id of the task
	Number  int             `json:"number"`            // from 1
	Attempt int             `json:"attempt"`           // from 1; retried after infra
	Phase   string          `json:"phase"`             // starting, probing servers, agent at work, collecting, asking the judge, once more or done
	Since   time.Time       `json:"since"`             // start of the phase, UTC
	Outcome evidence.Class  `json:"outcome,omitempty"` // outcome of the attempt; omitted until it has ended
	Reason  evidence.Reason `json:"reason,omitempty"`  // reason for the outcome, in a word; omitted if the trial passed
	Message string          `json:"message,omitempty"` // reason for the outcome, in a sentence; omitted if there is none
	Call    *CallProgress   `json:"call,omitempty"`    // latest call without a response; omitted if there is none
}

// CallProgress is a call without a response yet.
type CallProgress struct {
	Server string    `json:"server"` // name of the server
	Tool   string    `json:"tool"`   // name of the tool
	Since  time.Time `json:"since"`  // start of the call, UTC
}

// Ended reports whether the trial has its outcome.
func (t TrialProgress) Ended() bool { return t.Phase == string(evidence.PhaseDone) }
