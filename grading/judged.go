package grading

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Judged is the part of a grader's config by which a model judges beside its checks.
type Judged struct {
	Rubric string       `json:"rubric,omitempty" jsonschema:"what a model is to judge; reported beside the score, and decides nothing unless judge.min_score is set"`
	Judge  *JudgeConfig `json:"judge,omitempty" jsonschema:"how often it is asked, and what its answers come to"`
}

// checkJudged says what in the config makes no sense. alone says that there is nothing
// else to check.
func (c Judged) checkJudged(alone bool) error {
	config := c.judgeConfig()
	switch {
	case c.Rubric == "" && c.Judge != nil:
		return errors.New("judge: without a rubric there is nothing to judge")
	case config.Aggregate == byMajority && config.MinScore == nil:
		return errors.New("judge: aggregate majority counts the answers that reach min_score; set it")
	case alone && c.Rubric != "" && config.MinScore == nil:
		return errors.New("rubric: alone it decides nothing; set judge.min_score, or check something else too")
	}
	return config.check()
}

func (c Judged) judgeConfig() JudgeConfig {
	if c.Judge == nil {
		return JudgeConfig{}
	}
	return *c.Judge
}

func (c *ComplianceConfig) inquiry() (inquiry, bool) {
	return inquiry{JudgeConfig: c.judgeConfig(), rubric: c.Rubric, servers: c.Server}, c.Rubric != ""
}

// judged adds to r what the judge says, as a check where the config has a least score.
func (s *subject) judged(r *report, a inquirer) error {
	q, asks := a.inquiry()
	if !asks {
		return nil
	}
	said, err := s.rule(q)
	if err != nil {
		return err
	}
	if r.details == nil {
		r.details = map[string]any{}
	}
	r.details["judge"] = said.details()
	if q.MinScore == nil {
		r.note("%s", said.sentence())
		return nil
	}
	r.check(said.passes(), "Gate failed: %s", said.failure())
	if said.passes() {
		r.note("%s", said.sentence())
	}
	return nil
}

// ruling is what the judge's answers to an inquiry come to.
type ruling struct {
	inquiry
	model    string // that was asked
	opinions []opinion
	leftOut  int // calls that it was not shown
}

// rule reads the judge's answers. Each must be there and readable.
func (s *subject) rule(q inquiry) (ruling, error) {
	asks, leftOut, err := s.questions(q)
	if err != nil {
		return ruling{}, err
	}
	r := ruling{inquiry: q, model: asks[0].Model, leftOut: leftOut}
	for i, ask := range asks {
		said, err := s.opinionOn(ask)
		if err != nil && len(asks) > 1 {
			err = fmt.Errorf("answer %d of %d: %w", i+1, len(asks), err)
		}
		if err != nil {
			return r, fmt.Errorf("%w: %w", errEvidence, err)
		}
		r.opinions = append(r.opinions, said)
	}
	return r, nil
}

func (r ruling) scores() []float64 {
	var all []float64
	for _, o := range r.opinions {
		all = append(all, o.Score)
	}
	return all
}

// score is what the answers come to; with majority, the share that reaches the least
// score.
func (r ruling) score() float64 {
	scores := slices.Sorted(slices.Values(r.scores()))
	switch r.Aggregate {
	case byMin:
		return scores[0]
	case byMean:
		sum := 0.0
		for _, score := range scores {
			sum += score
		}
		return sum / float64(len(scores))
	case byMajority:
		return float64(r.reaching()) / float64(len(scores))
	}
	middle := len(scores) / 2
	if len(scores)%2 == 1 {
		return scores[middle]
	}
	return (scores[middle-1] + scores[middle]) / 2
}

// reaching is how many answers reach the least score.
func (r ruling) reaching() int {
	return len(filter(r.opinions, func(o opinion) bool { return o.Score >= *r.MinScore }))
}

func (r ruling) passes() bool {
	if r.Aggregate == byMajority {
		return 2*r.reaching() > len(r.opinions)
	}
	return r.score() >= *r.MinScore
}

// reason is that of the answer nearest to what they all come to.
func (r ruling) reason() string {
	distance := func(o opinion) float64 { return max(o.Score-r.score(), r.score()-o.Score) }
	return excerpt(slices.MinFunc(r.opinions, func(a, b opinion) int { return cmp.Compare(distance(a), distance(b)) }).Reason)
}

func (r ruling) sentence() string {
	return fmt.Sprintf("The judge %s: %s.", r.verdict(), r.reason())
}

func (r ruling) failure() string {
	wanted := "at least " + number(*r.MinScore)
	if r.Aggregate == byMajority {
		wanted += " in more than half of its answers"
	}
	return fmt.Sprintf("Expected the judge to give %s; it %s: %s.", wanted, r.verdict(), r.reason())
}

// verdict is what the judge does, as a sentence goes on behind its name.
func (r ruling) verdict() string {
	if len(r.opinions) == 1 {
		return "gives " + number(r.opinions[0].Score)
	}
	var all []string
	for _, score := range r.scores() {
		all = append(all, number(score))
	}
	listed := strings.Join(all, ", ")
	if r.Aggregate == byMajority {
		return fmt.Sprintf("gives %s or more in %d of %d answers (%s)", number(*r.MinScore), r.reaching(), len(r.opinions), listed)
	}
	return fmt.Sprintf("gives %s, the %s of %s", number(r.score()), cmp.Or(r.Aggregate, byMedian), listed)
}

func number(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }

func (r ruling) details() map[string]any {
	details := map[string]any{
		"model": r.model, "score": r.score(), "aggregate": cmp.Or(r.Aggregate, byMedian), "answers": r.opinions,
	}
	if r.leftOut > 0 {
		details["calls_left_out"] = r.leftOut
	}
	return details
}
