package results

import "time"

// Outline is r in figures, as [ReadOutline] reads them from its results.json.
func (r Results) Outline() Outline {
	o := Outline{EvalName: r.EvalName, Agent: r.Config.EngineType, Model: r.Config.ModelID, Isolated: r.Config.Isolated}
	for _, task := range r.Tasks {
		outline := TaskOutline{ID: task.TestID}
		for _, run := range task.Runs {
			outline.Trials = append(outline.Trials, run.outline())
		}
		o.Tasks = append(o.Tasks, outline)
	}
	return o
}

func (r RunResult) outline() TrialOutline {
	t := TrialOutline{
		Outcome: r.Outcome, Duration: time.Duration(r.DurationMS) * time.Millisecond, MCPCalls: int64(r.SessionDigest.MCPToolCalls),
	}
	if m := r.Models; m != nil {
		t.Models = &ModelFigures{InputTokens: m.Tokens.Input, OutputTokens: m.Tokens.Output, Cost: m.Cost}
	}
	if r.Attack != nil {
		t.Attack = r.Attack.Result
	}
	return t
}
