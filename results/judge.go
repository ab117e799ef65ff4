package results

import (
	"cmp"
	"encoding/json"

	"github.com/waza-isolate/waza/evidence"
)

// Judge is what the answers of judges cost, also those that count no more, and of models that
// answered agents. Endpoints
// that do not count tokens are not in the figures.
type Judge struct {
	Answers      int   `json:"answers"`
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
}

// judgeOf adds up a trial's steps; nil without an answer of a judge.
func judgeOf(steps []evidence.Step) *Judge {
	var all *Judge
	for _, step := range steps {
		var answer evidence.JudgeAnswer
		if step.Kind != evidence.StepJudge && step.Kind != evidence.StepResponder || json.Unmarshal(step.Answer, &answer) != nil {
			continue
		}
		all = all.plus(&Judge{1, answer.InputTokens, answer.OutputTokens})
	}
	return all
}

// plus is the sum of two; nil is none.
func (j *Judge) plus(more *Judge) *Judge {
	if j == nil || more == nil {
		return cmp.Or(j, more)
	}
	return &Judge{j.Answers + more.Answers, j.InputTokens + more.InputTokens, j.OutputTokens + more.OutputTokens}
}
