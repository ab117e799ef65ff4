package grading

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
)

// JudgeConfig says how often a judge is asked, and what its answers come to.
type JudgeConfig struct {
	Samples   int      `json:"samples,omitempty" min:"1" max:"25" jsonschema:"how often the judge is asked the same; default 1"`
	Aggregate string   `json:"aggregate,omitempty" enum:"median mean min majority" jsonschema:"what the answers come to: their median, mean or lowest score, or majority: the share that reaches min_score, which passes above one half; default median"`
	MinScore  *float64 `json:"min_score,omitempty" min:"0" max:"1" jsonschema:"score from which the judge's word passes"`
}

// maxSamples is how often a judge can be asked the same.
const maxSamples = 25

// Ways to make one score of several.
const (
	byMedian   = "median"
	byMean     = "mean"
	byMin      = "min"
	byMajority = "majority"
)

func (c JudgeConfig) check() error {
	var errs []error
	if c.Samples < 0 || c.Samples > maxSamples {
		errs = append(errs, fmt.Errorf("judge.samples: not from 1 to %d", maxSamples))
	}
	if known := []string{"", byMedian, byMean, byMin, byMajority}; !slices.Contains(known, c.Aggregate) {
		errs = append(errs, fmt.Errorf("judge.aggregate: not one of %s", strings.Join(known[1:], ", ")))
	}
	if c.MinScore != nil && !(*c.MinScore >= 0 && *c.MinScore <= 1) {
		errs = append(errs, errors.New("judge.min_score: not from 0 to 1"))
	}
	return errors.Join(errs...)
}

func (c JudgeConfig) samples() int { return cmp.Or(c.Samples, 1) }

// inquiry is what a grader has a judge decide.
type inquiry struct {
	JudgeConfig
	rubric  string
	model   string   // its own; empty for the eval's
	effort  string   // likewise
	servers []string // whose calls the judge is shown; none for all

	pairwise     bool // the output is compared with that of a run without skills, where there was one
	conversation bool // the judge is shown the agent's transcript too
}

// inquirer is a grader's config that may have a judge decide.
type inquirer interface {
	inquiry() (q inquiry, asks bool)
}

// AsksJudge says whether a grader with this config, which is one of [NewConfig]'s, has
// a judge decide, and which model it names for that; empty for none.
func AsksJudge(config any) (model string, asks bool) {
	if a, ok := config.(inquirer); ok {
		q, asks := a.inquiry()
		return q.model, asks
	}
	return "", false
}

// NeedJudge says whether one of the graders has a judge decide.
func NeedJudge(graders []evidence.GraderSpec) bool {
	return slices.ContainsFunc(graders, func(spec evidence.GraderSpec) bool {
		g, err := load(spec)
		if err != nil {
			return false
		}
		_, asks := AsksJudge(g)
		return asks
	})
}

// Question is what a grader asks of a judge.
type Question struct {
	Grader string
	Ask    evidence.JudgeAsk
	// Answered says that an answer is on record that the grader can read.
	Answered bool
}

// Raw is the question as a step has it: the same question is the same bytes.
func (q Question) Raw() (json.RawMessage, error) { return Ask{What: q.Ask}.Raw() }

// Questions lists what the graders of the trial in dir ask of judges. It sends nothing.
// A grader that lacks other evidence asks nothing: it cannot judge, whatever the
// answer.
func Questions(dir evidence.Dir) ([]Question, error) {
	trial, err := dir.Trial()
	if err != nil {
		return nil, fmt.Errorf("grading: %w", err)
	}
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
	for _, spec := range trial.AllGraders() {
		all = append(all, s.of(spec).asked(spec)...)
	}
	return all, nil
}

// asked is what a grader asks; nothing where it cannot judge anyway.
func (s *subject) asked(spec evidence.GraderSpec) []Question {
	g, err := load(spec)
	if err != nil {
		return nil
	}
	a, ok := g.(inquirer)
	if !ok {
		return nil
	}
	q, asks := a.inquiry()
	if !asks {
		return nil
	}
	found, _, _ := s.questions(q)
	var all []Question
	for _, ask := range found {
		_, err := s.opinionOn(ask)
		all = append(all, Question{Grader: spec.Name, Ask: ask, Answered: err == nil})
	}
	return all
}

// opinionOn is what the last answer on record says to a question of the grader's.
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
