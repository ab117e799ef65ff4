package results

import (
	"cmp"
	"fmt"
	"time"

	"github.com/waza-isolate/waza/evidence"
)

// Outline is a summary of a results.json: the run, and how each trial ended. The file may
// come from upstream waza.
type Outline struct {
	EvalName string
	Agent    string // the executor
	Model    string
	Isolated bool
	Tasks    []TaskOutline

	TimeoutSec int64
	Judge      string
	NoAttacks  bool
	Catalogs   map[string][]string // the beginnings of their digests, by server
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
	Models   *ModelFigures          // nil if not known
	Attack   evidence.AttackOutcome // empty without an attack
}

// ModelFigures is what model calls took.
type ModelFigures struct {
	InputTokens  int64    `json:"input_tokens"`
	OutputTokens int64    `json:"output_tokens"`
	Cost         *float64 `json:"cost,omitempty"` // US dollars; nil where no price is known
}

// Outline returns what [ReadOutline] reads of the file that r is written to.
func (r Results) Outline() Outline {
	o := Outline{
		EvalName: r.EvalName, Agent: r.Config.EngineType, Model: r.Config.ModelID, Isolated: r.Config.Isolated,
		TimeoutSec: int64(r.Config.TimeoutSec), Judge: r.Config.JudgeModel, NoAttacks: r.Config.NoAttacks,
	}
	for _, server := range r.Servers {
		for _, c := range server.Catalogs {
			o.addCatalog(server.Name, c.SHA256)
		}
	}
	for _, t := range r.Tasks {
		task := TaskOutline{ID: t.TestID}
		for _, run := range t.Runs {
			task.Trials = append(task.Trials, run.outline())
		}
		o.Tasks = append(o.Tasks, task)
	}
	return o
}

func (r RunResult) outline() TrialOutline {
	t := TrialOutline{
		Outcome: r.Outcome, Duration: time.Duration(r.DurationMS) * time.Millisecond, MCPCalls: int64(r.SessionDigest.MCPToolCalls),
	}
	if r.Models != nil {
		t.Models = &ModelFigures{InputTokens: r.Models.Tokens.Input, OutputTokens: r.Models.Tokens.Output, Cost: r.Models.Cost}
	}
	if r.Attack != nil {
		t.Attack = r.Attack.Result
	}
	return t
}

// addCatalog adds the digest of a catalog that a server had, shortened to what identifies
// it.
func (o *Outline) addCatalog(server, digest string) {
	if o.Catalogs == nil {
		o.Catalogs = map[string][]string{}
	}
	o.Catalogs[server] = append(o.Catalogs[server], fmt.Sprintf("%.12s", digest))
}

// plus returns the sum of known figures, or nil if there are none.
func (m *ModelFigures) plus(other *ModelFigures) *ModelFigures {
	if m == nil || other == nil {
		return cmp.Or(m, other)
	}
	return &ModelFigures{
		InputTokens: m.InputTokens + other.InputTokens, OutputTokens: m.OutputTokens + other.OutputTokens, Cost: plusCost(m.Cost, other.Cost),
	}
}

// passed returns how many of the trials that count passed, and how many count.
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
