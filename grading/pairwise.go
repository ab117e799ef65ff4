package grading

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/waza-isolate/waza/evidence"
)

const pairSystem = `You compare the recorded work of two runs of a program, called the agent, on the same task. You are given a rubric, and data that was recorded. Score which of the two outputs meets the rubric better: 0 where A is much better, 0.5 where they are equal, 1 where B is much better, and between these where one is slightly better.

` + judgeData + `

Where the rubric tells you to call a tool, call none.

` + judgeAnswer

// Who is better in a pair, and how much, in waza's words.
const (
	winnerRun      = "skill"
	winnerBaseline = "baseline"
	winnerTie      = "tie"

	muchBetter     = "much-better"
	slightlyBetter = "slightly-better"
	equallyGood    = "equal"
)

// pairOrders are the pairs that a judge is shown: of several answers, and so of two outputs,
// a model may prefer one for its place.
const pairOrders = 2

// pairQuestions asks which of the trial's output and its baseline's is better, in both
// orders: in the first A is the baseline's.
func (s *subject) pairQuestions(q inquiry) ([]evidence.JudgeAsk, error) {
	if err := s.kept(evidence.GapFinalOutput); err != nil {
		return nil, err
	}
	base := s.trial.Baseline
	if base.Missing != "" {
		return nil, fmt.Errorf("%w: the run without skills has no output to compare with: %s", errEvidence, base.Missing)
	}
	outputs := [pairOrders]string{base.FinalOutput, s.trial.FinalOutput}
	var all []evidence.JudgeAsk
	for order := range outputs {
		all = append(all, s.ask(q, pairSystem, []exhibit{
			{"the task that the agent was given", cutMiddle(s.trial.Prompt, maxShownText)},
			{"output A", cutMiddle(outputs[order], maxShownText)},
			{"output B", cutMiddle(outputs[1-order], maxShownText)},
		}, 1))
	}
	return all, nil
}

// preference is what a judge says of a pair.
type preference struct {
	Winner             string `json:"winner"`
	Magnitude          string `json:"magnitude"`
	Reasoning          string `json:"reasoning"`
	PositionConsistent bool   `json:"position_consistent"`
}

// prefer is what the answers to both orders come to. As in waza nobody wins where the order
// decides.
func prefer(answers [pairOrders]opinion) preference {
	won := [pairOrders]string{winnerOf(answers[0].Score), winnerOf(1 - answers[1].Score)}
	if won[0] != won[1] {
		return preference{winnerTie, equallyGood, fmt.Sprintf("shown in one order the judge prefers %s, in the other %s", won[0], won[1]), false}
	}
	p := preference{won[0], slightlyBetter, answers[0].Reason, true}
	switch away := math.Abs(answers[0].Score - 0.5); {
	case away == 0:
		p.Magnitude = equallyGood
	case away >= 0.25:
		p.Magnitude = muchBetter
	}
	return p
}

// winnerOf is who is better by a score that is 0 for the baseline and 1 for the run.
func winnerOf(score float64) string {
	switch {
	case score > 0.5:
		return winnerRun
	case score < 0.5:
		return winnerBaseline
	}
	return winnerTie
}

// score is 1 where the run is better and 0 where its baseline is.
func (p preference) score() float64 {
	return map[string]float64{winnerRun: 1, winnerTie: 0.5}[p.Winner]
}

// gradePair passes a trial unless its baseline is better.
func (s *subject) gradePair(q inquiry) (report, error) {
	asks, _, err := s.questions(q)
	if err != nil {
		return report{}, err
	}
	var answers [pairOrders]opinion
	for i, ask := range asks {
		if answers[i], err = s.opinionOn(ask); err != nil {
			return report{}, fmt.Errorf("%w: answer %d of %d: %w", errEvidence, i+1, pairOrders, err)
		}
	}
	p := prefer(answers)
	score := p.score()
	said := fmt.Sprintf("The judge finds it %s than the run without skills: %s.", map[string]string{winnerRun: "better", winnerBaseline: "worse", winnerTie: "no better or worse"}[p.Winner], excerpt(p.Reasoning))
	r := report{own: &score, said: said, details: map[string]any{
		"pairwise": p, "judge": map[string]any{"model": asks[0].Model, "answers": answers},
	}}
	r.check(p.Winner != winnerBaseline, "%s", said)
	return r, nil
}

// ask is one question of an inquiry.
func (s *subject) ask(q inquiry, system string, exhibits []exhibit, sample int) evidence.JudgeAsk {
	judge := s.trial.Judge
	return evidence.JudgeAsk{
		Model: cmp.Or(judge.Override, q.model, judge.Model),
		Messages: []evidence.JudgeMessage{
			{Role: "system", Content: system},
			{Role: "user", Content: present("The rubric", q.rubric, exhibits)},
		},
		MaxTokens: judge.MaxTokens, Temperature: judge.Temperature, Effort: cmp.Or(q.effort, judge.Effort),
		Schema: json.RawMessage(opinionSchema), Sample: sample,
	}
}

// pairs reports whether an inquiry compares the trial with one without skills.
func (s *subject) pairs(q inquiry) bool { return q.pairwise && s.trial.Baseline != nil }

// ComparesPairs reports whether one of the graders compares with a run without skills.
func ComparesPairs(graders []evidence.GraderSpec) bool {
	return slices.ContainsFunc(graders, func(spec evidence.GraderSpec) bool {
		g, err := load(spec)
		c, ok := g.(*PromptConfig)
		return err == nil && ok && c.Mode == modePairwise
	})
}
