package conversation

import (
	"encoding/json"
	"errors"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
)

// Reply is what a model that plays the agent's user did about what the agent said.
type Reply struct {
	grading.Reply
	Problem string // why there is none; empty where there is one
}

// Did says it in a few words.
func (r Reply) Did() string {
	switch {
	case r.Problem != "":
		return "no reply"
	case r.Action == grading.ActionStop:
		return "ends the conversation"
	case r.Action == grading.ActionAbstain:
		return "cannot answer"
	}
	return "replies"
}

// Text is what it said, or why it said nothing.
func (r Reply) Text() string {
	if r.Problem != "" {
		return r.Problem
	}
	return r.Reply.Text
}

// replies reads them, in their order.
func replies(dir evidence.Dir) (all []Reply, err error) {
	steps, err := dir.Steps()
	for _, step := range steps {
		if step.Kind == evidence.StepResponder {
			all = append(all, replyOf(step))
		}
	}
	return all, err
}

func replyOf(step evidence.Step) (r Reply) {
	var answer evidence.JudgeAnswer
	err := errors.New(step.Error)
	if step.Error == "" {
		err = json.Unmarshal(step.Answer, &answer)
	}
	if err == nil {
		r.Reply, err = grading.ReadReply(answer)
	}
	if err != nil {
		r.Problem = err.Error()
	}
	return r
}
