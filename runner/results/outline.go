package results

import (
	"cmp"
	"time"

	"github.com/waza-isolate/waza/runner/evidence"
)

// Outline is what a results.json says in figures: who ran what, and how each trial
// ended. It may be of upstream waza's making.
type Outline struct {
	EvalName string
	Agent    string // the executor
	Model    string
	Isolated bool
	Tasks    []TaskOutline
}

// TaskOutline is a task and its trials.
type TaskOutline struct {
	ID     string
	Trials []TrialOutline
}

// TrialOutline is one trial.
type TrialOutline struct {
	Outcome  evidence.Class
	Duration time.Duration
	MCPCalls int64
	Models   *ModelFigures      // nil where nothing tells what models took
	Attack   evidence.AttackEnd // empty where there was none
}

// ModelFigures is what model calls took.
type ModelFigures struct {
	InputTokens  int64    `json:"input_tokens"`
	OutputTokens int64    `json:"output_tokens"`
	Cost         *float64 `json:"cost,omitempty"` // US dollars; nil where nothing tells prices
}

// plus adds up what is known; nil where nothing is.
func (m *ModelFigures) plus(other *ModelFigures) *ModelFigures {
	if m == nil || other == nil {
		return cmp.Or(m, other)
	}
	return &ModelFigures{
		InputTokens: m.InputTokens + other.InputTokens, OutputTokens: m.OutputTokens + other.OutputTokens, Cost: plusCost(m.Cost, other.Cost),
	}
}

// passed is how many of the trials that count passed, and how many count.
func (t TaskOutline) passed() (passed, counted int) {
	for _, trial := range t.Trials {
		if trial.Outcome == evidence.ClassInfra {
			continue
		}
		counted++
		if trial.Outcome == evidence.ClassPass {
			passed++
		}
	}
	return passed, counted
}
