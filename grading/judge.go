package grading

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/evidence"
)

// JudgeConfig configures how often a judge is asked and how its answers are combined.
type JudgeConfig struct {
	Samples   int      `json:"samples,omitempty" min:"1" max:"25" jsonschema:"number of times to ask the judge; default 1"`
	Aggregate string   `json:"aggregate,omitempty" enum:"median mean min majority" jsonschema:"how to combine the answers: median, mean or lowest score, or majority, the share of scores that reach min_score, which passes above one half; default median"`
	MinScore  *float64 `json:"min_score,omitempty" min:"0" max:"1" jsonschema:"score from which the judge's verdict passes; of a rubric one more gate, which is required with aggregate: majority and if there is nothing but a rubric"`
}

// Ways to combine several scores into one.
const (
	byMedian   = "median"
	byMean     = "mean"
	byMin      = "min"
	byMajority = "majority"
)

func (c JudgeConfig) samples() int { return cmp.Or(c.Samples, 1) }

// judgement is a question that a grader leaves to a judge.
type judgement struct {
	JudgeConfig
	rubric  string
	model   string   // its own; empty for the eval's
	effort  string   // likewise
	servers []string // servers whose calls are shown to the judge; all if empty

	pairwise     bool // compare the output with that of a baseline run without skills, if there is one
	conversation bool // the judge also sees the agent's transcript
}

// judged is a grader's config that may ask a judge.
type judged interface {
	inquiry() (q judgement, asks bool)
}

// AsksJudge reports whether a grader with this config, from [NewConfig], asks a judge, and
// returns the model that the config names, if any.
func AsksJudge(config any) (model string, asks bool) {
	if a, ok := config.(judged); ok {
		q, asks := a.inquiry()
		return q.model, asks
	}
	return "", false
}

// NeedJudge reports whether any of the graders asks a judge.
func NeedJudge(graders []evidence.GraderSpec) bool {
	for _, g := range readable(graders) {
		if _, asks := AsksJudge(g); asks {
			return true
		}
	}
	return false
}

// Question is a grader's question to a judge.
type Question struct {
	Grader string
	Ask    evidence.JudgeAsk
	// Answered reports whether a valid answer is recorded.
	Answered bool
}

// Questions returns the questions that the graders of a trial have for judges; it does not send them. A
// grader that lacks other evidence has none, since no answer would let it judge.
func Questions(dir evidence.Dir, trial evidence.Trial) ([]Question, error) {
	if !trial.Class.OfAgent() || !NeedJudge(trial.AllGraders()) {
		return nil, nil
	}
	s, err := open(dir, trial)
	if err != nil {
		return nil, fmt.Errorf("grading: %w", err)
	}
	if s.stepsErr != nil {
		return nil, fmt.Errorf("grading: %w", s.stepsErr)
	}
	var all []Question
	for spec, g := range readable(trial.AllGraders()) {
		a, ok := g.(judged)
		if !ok {
			continue
		}
		if q, asks := a.inquiry(); asks {
			all = append(all, s.of(spec).asked(q)...)
		}
	}
	return all, nil
}

// asked returns the questions of the grader, or none if it cannot judge in any case.
func (s *subject) asked(q judgement) (all []Question) {
	found, _, _ := s.questions(q)
	for _, ask := range found {
		_, err := s.opinionOn(ask)
		all = append(all, Question{Grader: s.grader, Ask: ask, Answered: err == nil})
	}
	return all
}

// opinionOn returns the opinion in the last recorded answer to a question of the grader.
func (s *subject) opinionOn(ask evidence.JudgeAsk) (opinion, error) {
	if s.stepsErr != nil {
		return opinion{}, errors.New(s.explain(s.stepsErr))
	}
	raw, err := Ask{What: ask}.Raw()
	if err != nil {
		return opinion{}, err
	}
	for _, step := range slices.Backward(s.steps) {
		if step.Kind == evidence.StepJudge && step.Grader == s.grader && bytes.Equal(step.Ask, raw) {
			return opinionOf(step)
		}
	}
	return opinion{}, fmt.Errorf("no answer of the judge is on record; %s", askAnew)
}

const askAnew = "waza grade --judge RUN asks for it"

// opinionOf reads the answer of a step.
func opinionOf(step evidence.Step) (opinion, error) {
	if step.Error != "" {
		return opinion{}, fmt.Errorf("the judge gave no answer: %s; %s", strings.TrimRight(clean(step.Error), ". "), askAnew)
	}
	var answer evidence.JudgeAnswer
	if err := json.Unmarshal(step.Answer, &answer); err != nil {
		return opinion{}, fmt.Errorf("the judge's answer on record cannot be read; %s", askAnew)
	}
	if answer.Refusal != "" {
		return opinion{}, fmt.Errorf("the judge refused to answer: %s; %s", excerpt(answer.Refusal), askAnew)
	}
	said, err := parseOpinion(answer.Text)
	switch {
	case err != nil && answer.Finish == "length":
		return opinion{}, fmt.Errorf("the judge's answer was cut off for its length: %s; raise config.judge.max_tokens", excerpt(answer.Text))
	case err != nil:
		return opinion{}, fmt.Errorf("the judge's answer is not what was asked for (%w): %s; %s", err, excerpt(answer.Text), askAnew)
	}
	return said, nil
}

// Judged is embedded in the config of graders that optionally ask a judge.
type Judged struct {
	Rubric string       `json:"rubric,omitempty" jsonschema:"criteria for a model to judge by; its score is reported, and affects the verdict only if judge.min_score is set"`
	Judge  *JudgeConfig `json:"judge,omitempty" jsonschema:"how often to ask the judge, and how to combine its answers"`
}

// checkJudged validates the config. alone means that the grader has no other checks.
func (c Judged) checkJudged(alone bool) error {
	config := c.judgeConfig()
	switch {
	case c.Rubric == "" && c.Judge != nil:
		return errors.New("judge: without a rubric there is nothing to judge")
	case config.Aggregate == byMajority && config.MinScore == nil:
		return errors.New("judge: aggregate majority counts the answers that reach min_score; set it")
	case alone && c.Rubric != "" && config.MinScore == nil:
		return errors.New("rubric: does not affect the verdict by itself; set judge.min_score, or add another check")
	}
	return nil
}

func (c Judged) judgeConfig() JudgeConfig {
	if c.Judge == nil {
		return JudgeConfig{}
	}
	return *c.Judge
}

// judged adds the judge's answer to r. It is a check if the config has a min_score.
func (s *subject) judged(r *report, a judged) {
	q, asks := a.inquiry()
	if !asks {
		return
	}
	said, err := s.rule(q)
	if err != nil {
		r.lacks(err)
		return
	}
	if r.details == nil {
		r.details = map[string]any{}
	}
	r.details["judge"] = said.details()
	if q.MinScore == nil {
		r.note("%s", said.sentence())
		return
	}
	r.checks++
	if said.passes() {
		r.note("%s", said.sentence())
		r.list("rubric", checkPass, said.finding())
		return
	}
	r.failures = append(r.failures, "Gate failed: "+said.finding().String())
	r.list("rubric", checkFail, said.finding())
}

// ruling combines the judge's answers to a question.
type ruling struct {
	judgement
	model    string // the model that was asked
	opinions []opinion
	leftOut  int // number of calls that the judge was not shown
}

// rule reads the judge's answers. It returns an error if one is missing or unreadable.
func (s *subject) rule(q judgement) (ruling, error) {
	asks, leftOut, err := s.questions(q)
	if err != nil {
		return ruling{}, err
	}
	r := ruling{judgement: q, model: asks[0].Model, leftOut: leftOut}
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
	return mapped(r.opinions, func(o opinion) float64 { return o.Score })
}

// score returns the combined score of the answers; for majority, the share of answers that reach min_score.
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

// reaching returns how many answers reach min_score.
func (r ruling) reaching() int {
	return len(filter(r.opinions, func(o opinion) bool { return o.Score >= *r.MinScore }))
}

func (r ruling) passes() bool {
	if r.Aggregate == byMajority {
		return 2*r.reaching() > len(r.opinions)
	}
	return evidence.Reaches(r.score(), *r.MinScore)
}

// reason returns the reason of the answer whose score is closest to the combined score.
func (r ruling) reason() string {
	distance := func(o opinion) float64 { return max(o.Score-r.score(), r.score()-o.Score) }
	return excerpt(slices.MinFunc(r.opinions, func(a, b opinion) int { return cmp.Compare(distance(a), distance(b)) }).Reason)
}

func (r ruling) sentence() string {
	return fmt.Sprintf("The judge %s: %s.", r.verdict(), r.reason())
}

func (r ruling) finding() finding {
	wanted := "at least " + number(*r.MinScore)
	if r.Aggregate == byMajority {
		wanted += " in more than half of its answers"
	}
	return finding{expected: "the judge to give " + wanted, got: fmt.Sprintf("it %s: %s.", r.verdict(), r.reason())}
}

// verdict describes the judge's scores as the predicate of a sentence.
func (r ruling) verdict() string {
	if len(r.opinions) == 1 {
		return "gives " + number(r.opinions[0].Score)
	}
	listed := strings.Join(mapped(r.scores(), number), ", ")
	if r.Aggregate == byMajority {
		return fmt.Sprintf("gives %s or more in %d of %d answers (%s)", number(*r.MinScore), r.reaching(), len(r.opinions), listed)
	}
	return fmt.Sprintf("gives %s, the %s of %s", number(r.score()), cmp.Or(r.Aggregate, byMedian), listed)
}

// number formats a score, rounded to 9 decimals to hide rounding errors.
func number(n float64) string { return strconv.FormatFloat(math.Round(n*1e9)/1e9, 'g', -1, 64) }

func (r ruling) details() map[string]any {
	details := map[string]any{
		"model": r.model, "score": r.score(), "aggregate": cmp.Or(r.Aggregate, byMedian), "answers": r.opinions,
	}
	if r.leftOut > 0 {
		details["calls_left_out"] = r.leftOut
	}
	return details
}
