package results

import (
	"cmp"

	"github.com/waza-isolate/waza/evidence"
)

// Outline is the part of a results.json that comparisons need: the run, and how each trial ended. The file
// may come from upstream waza.
type Outline struct {
	EvalName      string `json:"eval_name"`
	OutlineConfig `json:"config"`
	Servers       []ServerOutline `json:"servers"`
	Tasks         []TaskOutline   `json:"tasks"`
}

// OutlineConfig is the configuration of the run.
type OutlineConfig struct {
	Agent      string `json:"engine_type"` // the executor
	Model      string `json:"model_id"`
	Isolated   bool   `json:"isolated"`
	TimeoutSec int64  `json:"timeout_sec"`
	Judge      string `json:"judge_model"`
	NoAttacks  bool   `json:"no_attacks"`
}

// ServerOutline is a server with its catalogs.
type ServerOutline struct {
	Name     string           `json:"name"`
	Catalogs []CatalogOutline `json:"catalogs"`
}

// CatalogOutline identifies a catalog.
type CatalogOutline struct {
	SHA256 string `json:"sha256"`
}

// TaskOutline is a task with its trials.
type TaskOutline struct {
	ID     string         `json:"test_id"`
	Golden bool           `json:"golden"`
	Trials []TrialOutline `json:"runs"`
}

// TrialOutline is one trial.
type TrialOutline struct {
	Outcome        evidence.Class `json:"outcome"`
	Status         Status         `json:"status"` // used in place of the outcome for files of upstream waza
	DurationMS     int64          `json:"duration_ms"`
	SessionOutline `json:"session_digest"`
	Gateway        *GatewayOutline `json:"models"`
	Attack         AttackOutline   `json:"attack"`
}

// SessionOutline is the usage of the agent.
type SessionOutline struct {
	MCPCalls int64         `json:"mcp_tool_calls"`
	Usage    *ModelFigures `json:"usage"` // nil if unknown; see [Usage]
}

// GatewayOutline is the cost of model calls, as counted by the gateway.
type GatewayOutline struct {
	Cost *float64 `json:"cost"`
}

// AttackOutline is the outcome of an attack; empty if there was none.
type AttackOutline struct {
	Result evidence.AttackOutcome `json:"result"`
}

// ModelFigures is the usage of model calls.
type ModelFigures struct {
	InputTokens  int64    `json:"input_tokens"`
	OutputTokens int64    `json:"output_tokens"`
	Cost         *float64 `json:"cost,omitempty"` // US dollars; nil if no price is known
}

// Outline returns the same as [ReadOutline] for the file that r is written to.
func (r Results) Outline() Outline {
	o := Outline{EvalName: r.EvalName, OutlineConfig: OutlineConfig{
		Agent: r.Config.EngineType, Model: r.Config.ModelID, Isolated: r.Config.Isolated,
		TimeoutSec: int64(r.Config.TimeoutSec), Judge: r.Config.JudgeModel, NoAttacks: r.Config.NoAttacks,
	}}
	for _, card := range r.Servers {
		server := ServerOutline{Name: card.Name}
		for _, c := range card.Catalogs {
			server.Catalogs = append(server.Catalogs, CatalogOutline{c.SHA256})
		}
		o.Servers = append(o.Servers, server)
	}
	for _, t := range r.Tasks {
		task := TaskOutline{ID: t.TestID, Golden: t.Golden}
		for _, run := range t.Runs {
			task.Trials = append(task.Trials, trialOutline(run))
		}
		o.Tasks = append(o.Tasks, task)
	}
	return o
}

func trialOutline(r RunResult) TrialOutline {
	t := TrialOutline{Outcome: r.Outcome, Status: r.Status, DurationMS: r.DurationMS}
	t.MCPCalls = int64(r.SessionDigest.MCPToolCalls)
	if u := r.SessionDigest.Usage; u != nil {
		t.Usage = &ModelFigures{InputTokens: u.Input, OutputTokens: u.Output}
	}
	if m := r.Models; m != nil {
		t.Gateway = &GatewayOutline{Cost: m.Cost}
	}
	if r.Attack != nil {
		t.Attack.Result = r.Attack.Result
	}
	return t
}

// Models returns the usage of model calls, or nil if it is unknown.
func (t TrialOutline) Models() *ModelFigures {
	if t.Usage == nil || t.Gateway == nil {
		return t.Usage
	}
	return &ModelFigures{InputTokens: t.Usage.InputTokens, OutputTokens: t.Usage.OutputTokens, Cost: t.Gateway.Cost}
}

// plus returns the sum of the known figures, or nil if there are none.
func (m *ModelFigures) plus(other *ModelFigures) *ModelFigures {
	if m == nil || other == nil {
		return cmp.Or(m, other)
	}
	return &ModelFigures{
		InputTokens: m.InputTokens + other.InputTokens, OutputTokens: m.OutputTokens + other.OutputTokens, Cost: plusCost(m.Cost, other.Cost),
	}
}

// passed returns the number of counted trials that passed, and the number of counted trials.
func (t TaskOutline) passed() (passed, counted int) {
	for _, trial := range t.Trials {
		if !trial.Outcome.OfAgent() {
			continue
		}
		counted++
		if trial.Outcome == evidence.ClassPass {
			passed++
		}
	}
	return passed, counted
}
