package results

import (
	"slices"
	"time"

	"github.com/waza-isolate/waza/runner/evidence"
)

// Comparison holds runs side by side.
type Comparison struct {
	Runs []ComparedRun `json:"runs"`
	// Differences are those of each further run from the first.
	Differences []Difference `json:"differences"`
}

// ComparedRun is a run in figures. Trials that ended as infra count for nothing.
type ComparedRun struct {
	Run              int            `json:"run"` // from 1
	EvalName         string         `json:"eval_name"`
	Agent            string         `json:"agent"`
	Model            string         `json:"model,omitempty"`
	Path             string         `json:"path,omitempty"`  // where its results are
	Error            string         `json:"error,omitempty"` // why there are none, or not all
	Isolated         bool           `json:"isolated"`
	Passed           int            `json:"passed"`
	Trials           int            `json:"trials"`
	Infra            int            `json:"infra,omitempty"`
	PassRate         *Estimate      `json:"pass_rate"` // of trials; nil without any
	MCPCalls         int64          `json:"mcp_tool_calls"`
	Models           *ModelFigures  `json:"models,omitempty"`
	MedianDurationMS *float64       `json:"median_duration_ms,omitempty"` // of agents' times
	Attacks          *Rate          `json:"attacks_succeeded,omitempty"`  // of those that succeeded or were resisted
	Tasks            []ComparedTask `json:"tasks"`
}

// ComparedTask is a task of a run in figures.
type ComparedTask struct {
	ID     string `json:"test_id"`
	Passed int    `json:"passed"`
	Trials int    `json:"trials"`
	Mark   string `json:"mark"` // how its trial ended, or how many of them passed
}

// Entry is a run that is to be compared.
type Entry struct {
	Outline
	Path  string
	Error string // why Outline is empty, or not whole
}

// Compare holds runs against the first of them.
func Compare(entries []Entry) Comparison {
	c := Comparison{Runs: []ComparedRun{}, Differences: []Difference{}}
	for i, entry := range entries {
		c.Runs = append(c.Runs, compared(i+1, entry))
		if i > 0 {
			c.Differences = append(c.Differences, differences(c.Runs[0], c.Runs[i])...)
		}
	}
	return c
}

func compared(number int, e Entry) ComparedRun {
	r := ComparedRun{
		Run: number, EvalName: e.EvalName, Agent: e.Agent, Model: e.Model, Path: e.Path, Error: e.Error, Isolated: e.Isolated,
		Tasks: []ComparedTask{},
	}
	var passes [][]float64
	var took []time.Duration
	succeeded, resisted := 0, 0
	for _, t := range e.Tasks {
		passed, counted := t.passed()
		r.Passed, r.Trials, r.Infra = r.Passed+passed, r.Trials+counted, r.Infra+len(t.Trials)-counted
		r.Tasks = append(r.Tasks, ComparedTask{ID: t.ID, Passed: passed, Trials: counted, Mark: mark(t)})
		passes = append(passes, passValues(passed, counted))
		for _, trial := range t.Trials {
			switch trial.Attack {
			case evidence.AttackSucceeded:
				succeeded++
			case evidence.AttackResisted:
				resisted++
			}
			r.MCPCalls += trial.MCPCalls
			r.Models = r.Models.plus(trial.Models)
			if trial.Outcome != evidence.ClassInfra {
				took = append(took, trial.Duration)
			}
		}
	}
	slices.Sort(took)
	r.PassRate, r.MedianDurationMS, r.Attacks = estimate(passes), median(took), rate(succeeded, succeeded+resisted)
	return r
}

// passValues is 1 for each trial that passed, and 0 for the others.
func passValues(passed, counted int) []float64 {
	values := make([]float64, counted)
	for i := range passed {
		values[i] = 1
	}
	return values
}

func mark(t TaskOutline) string {
	passed, counted := t.passed()
	switch {
	case len(t.Trials) == 0:
		return unknown
	case len(t.Trials) == 1:
		return string(t.Trials[0].Outcome)
	case counted == 0:
		return string(evidence.ClassInfra)
	}
	return share(passed, counted)
}
