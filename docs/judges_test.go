package docs_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
)

// judge is that of every example's trial.
func judge() *evidence.Judge {
	return &evidence.Judge{BaseURL: "https://models.example/v1", Model: "some-model", TimeoutSeconds: 1}
}

// answerJudge puts the lines of answers on record as what the judge said, in the order
// of the questions.
func answerJudge(t *testing.T, dir evidence.Dir, answers string) {
	t.Helper()
	trial, err := dir.Trial()
	if err != nil {
		t.Fatal(err)
	}
	questions, err := grading.Questions(dir, trial)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(answers), "\n")
	if answers == "" {
		lines = nil
	}
	if len(lines) != len(questions) {
		t.Fatalf("%d answers to %d questions", len(lines), len(questions))
	}
	for i, q := range questions {
		step := evidence.Step{Grader: q.Grader, Kind: evidence.StepJudge}
		if step.Ask, err = evidence.Marshal(q.Ask); err != nil {
			t.Fatal(err)
		}
		if step.Answer, err = json.Marshal(evidence.JudgeAnswer{Text: lines[i]}); err != nil {
			t.Fatal(err)
		}
		if err := dir.AddStep(step); err != nil {
			t.Fatal(err)
		}
	}
}
