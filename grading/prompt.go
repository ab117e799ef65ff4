package grading

import "errors"

// PromptConfig configures the prompt grader: a model judges the final output and the
// calls by a rubric, or compares the output with that of a run without skills. It is one
// check, and the score is the judge's.
type PromptConfig struct {
	_ struct{} `unknown:"warn"`

	Prompt          string       `json:"prompt" jsonschema:"criteria for the model to judge by"`
	Model           string       `json:"model,omitempty" jsonschema:"model to ask; overrides config.judge.model"`
	Mode            string       `json:"mode,omitempty" enum:"independent pairwise" jsonschema:"independent judges each trial by itself; pairwise judges which of the outputs of the trial and of its baseline is better; default independent"`
	ReasoningEffort string       `json:"reasoning_effort,omitempty" enum:"low medium high xhigh max" jsonschema:"reasoning effort of the model; overrides config.judge_reasoning_effort"`
	ContinueSession bool         `json:"continue_session,omitempty" jsonschema:"also show the judge the agent's conversation; default false"`
	Judge           *JudgeConfig `json:"judge,omitempty" jsonschema:"how often to ask the judge, and how to combine its answers; default of min_score 1"`
}

const modePairwise = "pairwise"

// Validate refuses settings of one mode in the other.
func (c *PromptConfig) Validate() error {
	if c.Mode == modePairwise && c.Judge != nil {
		return errors.New("judge: in mode pairwise the judge is asked twice, once in each order, and the better output wins; leave it out")
	}
	return nil
}

// inquiry returns the question to the judge. Without a min_score no criterion may fail, as in
// upstream waza.
func (c *PromptConfig) inquiry() (judgement, bool) {
	q := judgement{rubric: c.Prompt, model: c.Model, effort: c.ReasoningEffort, conversation: c.ContinueSession, pairwise: c.Mode == modePairwise}
	if c.Judge != nil {
		q.JudgeConfig = *c.Judge
	}
	if q.MinScore == nil {
		whole := 1.0
		q.MinScore = &whole
	}
	return q, true
}

func (c *PromptConfig) grade(s *subject) (report, error) {
	q, _ := c.inquiry()
	said, err := s.rule(q)
	switch {
	case err != nil:
		return report{}, err
	case s.pairs(q):
		return gradePair(said), nil
	}
	score := said.score()
	r := report{own: &score, said: said.sentence(), details: map[string]any{"judge": said.details()}}
	r.decide("prompt", said.passes(), said.finding())
	if q.pairwise {
		r.note("There was no run without skills to compare with, so it is judged by itself.")
	}
	return r, nil
}
