package record

import (
	"fmt"
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// judges records the answers of a trial's judge and of its responder. The same question always gets the same
// answer.
func judges(dir evidence.Dir, t evidence.Trial) (map[string]*cassette.Side, []string, error) {
	steps, err := stepsOf(dir, t)
	if err != nil {
		return nil, nil, err
	}
	side := &cassette.Side{}
	var left []string
	for _, step := range steps {
		if step.Kind != evidence.StepJudge && step.Kind != evidence.StepResponder {
			continue
		}
		who := fmt.Sprintf("grader %q", step.Grader)
		if step.Kind == evidence.StepResponder {
			who = "the responder"
		}
		question, _ := jsontext.Decode(step.Ask).(map[string]any)
		if step.Error != "" || len(step.Answer) == 0 || question["messages"] == nil {
			left = append(left, fmt.Sprintf("a question of %s, which got no answer", who))
			continue
		}
		e := cassette.Entry{Kind: match.Matchers{}, Match: match.Matchers{}, Answer: &cassette.Answer{Value: step.Answer}}
		for name, value := range question {
			to := e.Match
			if name == "model" || name == "sample" {
				to = e.Kind
			}
			if name != "schema" { // the grader's type determines the schema
				to[name] = cassette.Matcher("equals", value)
			}
		}
		if i := slices.IndexFunc(side.Entries, func(s cassette.Entry) bool { return asked(s) == asked(e) }); i >= 0 {
			side.Entries[i] = e // the question was asked again
			continue
		}
		side.Entries = append(side.Entries, e)
	}
	if len(side.Entries) == 0 {
		return nil, left, nil
	}
	return map[string]*cassette.Side{cassette.Judge: side}, left, nil
}
