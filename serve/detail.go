package serve

import (
	"context"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/results"
)

// RunDetail is the answer to /api/v1/runs/ID.
type RunDetail struct {
	Run
	EvalFile   string            `json:"eval_file"`                 // its path, as the run was given it
	EvalSHA256 string            `json:"eval_sha256"`               // of that file
	Waza       string            `json:"waza"`                      // the version that ran it
	Weak       []string          `json:"weak,omitempty"`            // attacks that get out of its sandboxes, which its command line allowed; left out where it allowed none
	Success    *results.Interval `json:"success_rate_ci,omitempty"` // the share of tasks that passed, with its 95% interval; from 0 to 1; left out where no trial has verdicts
	Results    []TaskDetail      `json:"results"`                   // by task, over the trials that have verdicts
}

// TaskDetail is a task of a run.
type TaskDetail struct {
	ID       string            `json:"id"`                     // of the task
	Name     string            `json:"name"`                   // of the task
	Status   results.Status    `json:"status"`                 // passed, failed, error, or n/a without a trial
	PassRate *results.Interval `json:"pass_rate_ci,omitempty"` // of its trials, with its 95% interval; left out where none counts
	Trials   []TrialLine       `json:"trials"`                 // those that have verdicts, by number
}

// TrialLine is a trial in a list of trials.
type TrialLine struct {
	Number     int             `json:"number"`            // from 1
	Attempts   int             `json:"attempts"`          // the last of which counts
	Outcome    evidence.Class  `json:"outcome"`           // pass, fail, timeout, agent_error, error, server_error or infra
	Reason     evidence.Reason `json:"reason,omitempty"`  // for that, in a word; left out of one that passed
	Message    string          `json:"message,omitempty"` // likewise, in a sentence; left out where none is told
	DurationMS int64           `json:"duration_ms"`       // of the agent
	MCPCalls   int             `json:"mcp_calls"`         // captured
}

func (s *Server) detail(ctx context.Context, run Run) (RunDetail, error) {
	d := RunDetail{Run: run, Results: []TaskDetail{}}
	shown, err := s.pages.run(ctx, run)
	if err != nil {
		return d, err
	}
	d.EvalFile, d.EvalSHA256, d.Waza, d.Weak = shown.Eval, shown.EvalSHA256, shown.Waza, shown.Results.Config.Weak
	if st := shown.Results.Summary.Statistics; st != nil {
		d.Success = &st.SuccessRateCI
	}
	for _, task := range shown.Results.Tasks {
		d.Results = append(d.Results, taskDetail(task))
	}
	return d, nil
}

func taskDetail(task results.Task) TaskDetail {
	t := TaskDetail{ID: task.TestID, Name: task.DisplayName, Status: task.Status, Trials: []TrialLine{}}
	if task.Stats != nil {
		t.PassRate = &task.Stats.PassRateCI
	}
	for _, r := range task.Runs {
		t.Trials = append(t.Trials, TrialLine{
			Number: r.RunNumber, Attempts: r.Attempts, Outcome: r.Outcome, Reason: r.Reason, Message: r.Message,
			DurationMS: r.DurationMS, MCPCalls: r.SessionDigest.MCPToolCalls,
		})
	}
	return t
}
