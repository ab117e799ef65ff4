// Package results computes the figures of a run, writes results.json in the format of waza,
// and compares runs.
//
// It uses only records: it reads no files or clock, and random numbers have a fixed seed,
// so the same records always give the same bytes. It does not grade. The contents of calls
// and transcripts are held for one trial at a time, and results contain a limited part of
// them.
//
// The format has additional keys: outcome, reason and earlier attempts of a run; source,
// mcp_server and outcome of a tool call; the number of MCP calls and their servers; reports
// about servers; pass_at_k, consistency, and the means of score, selection and params.
package results

import (
	"encoding/json"
	"time"

	"github.com/waza-isolate/waza/evidence"
)

// Status is how a task or a run ended, in waza's words.
type Status string

// waza's statuses.
const (
	StatusPassed Status = "passed"
	StatusFailed Status = "failed"
	StatusError  Status = "error"
	StatusNone   Status = "n/a" // of a task that has not ended: trials are missing, and all others passed
)

// Results is results.json.
type Results struct {
	EvalID    string             `json:"eval_id"`
	Skill     string             `json:"skill"`
	EvalName  string             `json:"eval_name"`
	Timestamp time.Time          `json:"timestamp"`
	Config    Config             `json:"config"`
	Summary   Summary            `json:"summary"`
	Metrics   map[string]Measure `json:"metrics"`
	// Labels are settings of the eval that do not affect verdicts, by upstream's names, such as
	// schemaVersion, and the names of metrics that are not measured.
	Labels map[string]json.RawMessage `json:"labels,omitempty"`
	// Triggers are the results of trigger_tests.yaml, or nil if no prompt of it was run.
	Triggers       *TriggerMetrics `json:"trigger_metrics,omitempty"`
	TriggerResults []TriggerResult `json:"trigger_results,omitempty"`

	Servers []ServerCard `json:"servers,omitempty"`
	Tasks   []Task       `json:"tasks"`
	// IsBaseline reports that the run was made without skills or without faults. Its results are in Baseline
	// of the run that it is compared with.
	IsBaseline bool            `json:"is_baseline,omitempty"`
	Baseline   json.RawMessage `json:"baseline_outcome,omitempty"`
}

// Config is the configuration of the run.
type Config struct {
	RunsPerTest int    `json:"runs_per_test"`
	ModelID     string `json:"model_id"`
	EngineType  string `json:"engine_type"`
	JudgeModel  string `json:"judge_model,omitempty"`
	TimeoutSec  int    `json:"timeout_sec"`
	Isolated    bool   `json:"isolated"` // trials ran in containers
	// Weak names the attacks that escape the containers; the command line allowed them.
	Weak []string `json:"weak,omitempty"`
	// NoAttacks reports that nothing was injected, since the run is a baseline.
	NoAttacks bool `json:"no_attacks,omitempty"`
	NoSkills  bool `json:"no_skills,omitempty"`
	NoFaults  bool `json:"no_faults,omitempty"`
}

// trialsOf returns the planned number of trials of a task.
func (c Config) trialsOf(t Task) int {
	if t.Trigger != nil {
		return 1
	}
	return c.RunsPerTest
}

// Summary holds the figures of the run. Scores are those of tasks; a task without a counted trial has none.
// The success rate is over the tasks that have ended; Skipped counts the others.
type Summary struct {
	TotalTests     int         `json:"total_tests"`
	Succeeded      int         `json:"succeeded"`
	Failed         int         `json:"failed"`
	Errors         int         `json:"errors"`
	Skipped        int         `json:"skipped"`
	SuccessRate    float64     `json:"success_rate"`
	AggregateScore float64     `json:"aggregate_score"`
	WeightedScore  float64     `json:"weighted_score"`
	MinScore       float64     `json:"min_score"`
	MaxScore       float64     `json:"max_score"`
	StdDev         float64     `json:"std_dev"`
	DurationMS     int64       `json:"duration_ms"`
	Again          int         `json:"earlier_attempts,omitempty"` // number of attempts that were repeated
	Groups         []Group     `json:"groups,omitempty"`           // by the group of the tasks
	Usage          *Usage      `json:"usage,omitempty"`            // of all runs; nil if unknown
	Models         *Models     `json:"models,omitempty"`           // of all runs; nil without a gateway
	Judge          *Judge      `json:"judge,omitempty"`            // of all runs
	Statistics     *Statistics `json:"statistics,omitempty"`       // nil without a counted trial
	Attacks        *Attacks    `json:"attacks,omitempty"`          // nil if there were no attacks
	Faults         *Faults     `json:"faults,omitempty"`           // nil if no faults were injected, unless the run has a baseline without faults
}

// Group holds the figures of a group of tasks.
type Group struct {
	Name     string  `json:"name"`
	Passed   int     `json:"passed"`
	Total    int     `json:"total"`
	AvgScore float64 `json:"avg_score"`
}

// Statistics say how reliable the tasks are, and how reliable the figures of the run are.
type Statistics struct {
	SuccessRateCI Interval `json:"success_rate_ci"` // Wilson's, with each task as one sample
	// The mean over tasks of the probabilities that at least one of k further trials passes, and that all
	// pass, by k from 1 to the smallest number of trials of a task.
	PassAtK     []float64         `json:"pass_at_k"`
	PassHatK    []float64         `json:"pass_hat_k"`
	Consistency ConsistencyCounts `json:"consistency"`
	PassRate    *Estimate         `json:"trial_pass_rate"` // share of trials that passed at the first attempt
	Score       *Estimate         `json:"score"`           // weighted score of trials
	// The following are over the trials whose mcp_compliance grader judges them; nil if there are none.
	Selection   *Estimate `json:"selection,omitempty"`    // the tools called, against those expected
	Params      *Estimate `json:"params,omitempty"`       // the arguments of calls, compared with the expected ones
	BootstrapCI *Interval `json:"bootstrap_ci,omitempty"` // of the mean of tasks' weighted scores
}

// Measure is the value of a metric.
type Measure struct {
	Identifier string  `json:"identifier"`
	Value      float64 `json:"value"`
	Threshold  float64 `json:"threshold"`
	Passed     bool    `json:"passed"`
	Weight     float64 `json:"weight"`
}

// Task is a task and its runs, which are trials in waza's words.
type Task struct {
	TestID      string `json:"test_id"`
	DisplayName string `json:"display_name"`
	Group       string `json:"group,omitempty"`  // according to config.group_by
	Golden      bool   `json:"golden,omitempty"` // a gate fails the run if the task does not pass
	Status      Status `json:"status"`
	// Trigger marks a task that is a prompt of trigger_tests.yaml. It only counts for the
	// metric trigger_accuracy.
	Trigger *TriggerTest `json:"trigger_test,omitempty"`
	// Labels are properties of the task that do not affect verdicts, by upstream's names, such as
	// should_trigger.
	Labels map[string]json.RawMessage `json:"labels,omitempty"`
	Runs   []RunResult                `json:"runs"`
	Stats  *Stats                     `json:"stats,omitempty"`
	// SkillImpact is nil unless there is a baseline without skills.
	SkillImpact *SkillImpact `json:"skill_impact,omitempty"`
}

// RunResult is the result of one trial: that of its last attempt.
type RunResult struct {
	RunNumber     int                          `json:"run_number"`
	Attempts      int                          `json:"attempts"`
	Status        Status                       `json:"status"`
	Outcome       evidence.Class               `json:"outcome"`
	Reason        evidence.Reason              `json:"reason,omitempty"`  // one word
	Message       string                       `json:"message,omitempty"` // one sentence
	Earlier       []Attempt                    `json:"earlier_attempts,omitempty"`
	DurationMS    int64                        `json:"duration_ms"`
	Validations   map[string]Validation        `json:"validations"`
	SessionDigest SessionDigest                `json:"session_digest"`
	Servers       []ServerReport               `json:"servers,omitempty"`
	ToolEvents    []ToolEvent                  `json:"tool_events,omitempty"`
	Transcript    []TranscriptEvent            `json:"transcript,omitempty"`
	Narration     *Narration                   `json:"narration,omitempty"` // nil without a transcript
	FinalOutput   string                       `json:"final_output"`
	Usage         *Usage                       `json:"usage,omitempty"`  // nil if unknown
	Models        *Models                      `json:"models,omitempty"` // nil without a gateway
	Judge         *Judge                       `json:"judge,omitempty"`  // the cost of graders' questions
	ErrorMsg      string                       `json:"error_msg,omitempty"`
	Checkpoints   []Checkpoint                 `json:"checkpoints,omitempty"`         // those that were reached, in order
	Responder     *evidence.Responder          `json:"responder,omitempty"`           // nil unless a model answered the agent
	Commands      []evidence.CommandInvocation `json:"command_invocations,omitempty"` // of command_mocks
	Attack        *Attack                      `json:"attack,omitempty"`              // nil if there was none
	Faults        int                          `json:"faults,omitempty"`              // number of faults injected into calls and models' turns

	// The following are of the last attempt, for the output at the end of a run: its time, including that
	// before and after the agent, and the servers that it shared with other trials.
	Took   time.Duration           `json:"-"`
	Shared []evidence.SharedServer `json:"-"`
}

// Attempt is an attempt that was repeated because it ended as infra, or because it failed and
// config.max_attempts allowed another.
type Attempt struct {
	Attempt int             `json:"attempt"`
	Outcome evidence.Class  `json:"outcome"`
	Reason  evidence.Reason `json:"reason,omitempty"`
	Message string          `json:"message,omitempty"`

	Shared []evidence.SharedServer `json:"-"` // as in [RunResult]
}

// Validation is a grader's verdict.
type Validation struct {
	Identifier string                 `json:"identifier"`
	Type       string                 `json:"type"`
	Score      float64                `json:"score"`
	Weight     float64                `json:"weight"`
	Passed     bool                   `json:"passed"`
	Result     evidence.VerdictResult `json:"result"`
	Feedback   string                 `json:"feedback"`
	Details    map[string]any         `json:"details,omitempty"`
	DurationMS int64                  `json:"duration_ms"` // always 0: verdicts contain no times
}

// Checkpoint holds the verdicts at a checkpoint between two turns of the conversation.
type Checkpoint struct {
	AfterTurn   int                   `json:"after_turn"`
	Status      Status                `json:"status"`
	Validations map[string]Validation `json:"validations"`
	Stopped     bool                  `json:"stopped,omitempty"` // it did not pass, so the conversation ended
}

// SessionDigest summarizes the usage of the agent.
type SessionDigest struct {
	ToolCallCount  int        `json:"tool_call_count"`
	ToolsUsed      []string   `json:"tools_used"`
	ToolCalls      []ToolCall `json:"tool_calls,omitempty"`
	MCPToolCalls   int        `json:"mcp_tool_calls"`
	MCPServersUsed []string   `json:"mcp_servers_used"`
	Errors         []string   `json:"errors"`
	Usage          *Usage     `json:"usage,omitempty"` // the trial's
}

// ToolCall is a use of a tool, with the arguments that upstream waza's graders know.
type ToolCall struct {
	Name      string        `json:"name"`
	Source    string        `json:"source"`
	MCPServer string        `json:"mcp_server,omitempty"`
	Arguments ToolArguments `json:"arguments"`
	Result    *ToolResult   `json:"result,omitempty"`
	Success   bool          `json:"success"`
}

// ToolArguments are the arguments of tools that upstream waza knows by name.
type ToolArguments struct {
	Path        string `json:"path,omitempty"`
	FileText    string `json:"file_text,omitempty"`
	Command     string `json:"command,omitempty"`
	Description string `json:"description,omitempty"`
	Skill       string `json:"skill,omitempty"`
}

// ToolResult is the text of a tool's result.
type ToolResult struct {
	Content         string `json:"content"`
	DetailedContent string `json:"detailedContent,omitempty"` // longer text for people, if the agent has one
}

// TranscriptEvent is an event of the agent's transcript with a tool's result in the form that upstream waza's
// readers expect: an object with a text. transcript.jsonl has the result as the agent wrote it.
type TranscriptEvent struct {
	evidence.TranscriptEvent
	ToolResult *ToolResult `json:"tool_result,omitempty"` // replaces the agent's own form
}

// ToolEvent is a use of a tool with all of its arguments and its result.
type ToolEvent struct {
	Turn       int              `json:"turn"` // the model call that asked for it; 0 if unknown
	Sequence   int              `json:"sequence"`
	ToolCallID string           `json:"tool_call_id,omitempty"`
	ToolName   string           `json:"tool_name"`
	Source     string           `json:"source"`
	MCPServer  string           `json:"mcp_server,omitempty"`
	Args       json.RawMessage  `json:"args,omitempty"`
	Result     json.RawMessage  `json:"result,omitempty"`
	Success    bool             `json:"success"`
	Outcome    evidence.Outcome `json:"outcome,omitempty"` // for MCP calls
	Origin     evidence.Origin  `json:"origin,omitempty"`  // for MCP calls
	Error      string           `json:"error,omitempty"`
	DurationMS int64            `json:"duration_ms,omitempty"`
}
