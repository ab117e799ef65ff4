package view

import (
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/results"
)

// RunState is the state of a run in a list of runs.
type RunState string

// States of runs.
const (
	StateStarting    RunState = "starting"    // live, without run.json yet
	StateRunning     RunState = "running"     // live
	StateEnded       RunState = "ended"       // completed
	StateInterrupted RunState = "interrupted" // ended early, or killed
	StateUnreadable  RunState = "unreadable"  // run.json or results.json is missing or invalid
)

// Live reports whether a process is working on the run.
func (s RunState) Live() bool { return s == StateStarting || s == StateRunning }

// ListedRun is a run in a list of runs.
type ListedRun struct {
	ID         string // name of the run's directory
	Eval       string // name of the eval
	Agent      string // executor
	Model      string // empty if the eval has none
	State      RunState
	Problem    string // why a file of the run is unreadable, in a sentence; empty if none is
	Isolated   bool   // whether trials ran in containers
	Network    string // network of the containers
	Started    time.Time
	Ended      time.Time // zero until the run has ended
	DurationMS int64     // from the start to the end of the run
	Tasks      int       // number of tasks
	EndedTasks int       // tasks that have ended
	Planned    int       // planned trials of all tasks
	Done       int       // trials with an outcome; 0 after the run has ended
	Workers    int       // trials at once
	Verdict    results.Status
	Passed     int      // tasks whose counted trials all passed
	Attacked   int      // trials with a successful attack
	PassRate   *float64 // mean over tasks of the share of trials that passed; nil without trials
}

// RunProgress is the progress of a run.
type RunProgress struct {
	State     RunState
	ElapsedMS int64 // time from the start until now or the end; for a killed run, until its last progress
	Planned   int   // planned trials of all tasks
	Done      int   // trials with an outcome
	Outcomes  map[evidence.Class]int
	Left      *time.Duration  // estimated remaining time; nil until as many trials are done as run at once
	Trials    []TrialProgress // trials that have started
}

// TrialProgress is the progress of a trial.
type TrialProgress struct {
	Task    string
	Number  int            // from 1
	Attempt int            // from 1; retried after infra
	Phase   string         // an [evidence.Phase]
	Since   time.Time      // start of the phase
	Outcome evidence.Class // of the attempt; empty until it has ended
	Message string         // reason for the outcome, in a sentence
	Call    *CallProgress  // latest call without a response
}

// CallProgress is a call without a response yet.
type CallProgress struct {
	Server string
	Tool   string
	Since  time.Time
}

// Ended reports whether the trial has its outcome.
func (t TrialProgress) Ended() bool { return t.Phase == string(evidence.PhaseDone) }
