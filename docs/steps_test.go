package docs_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
)

// answerSteps puts the lines of answers, steps that say only what came of them, on
// record as what came of all that grader has done, in the order in which it asks.
func answerSteps(t *testing.T, dir evidence.Dir, grader evidence.GraderSpec, answers string) {
	t.Helper()
	asks := grading.Asks([]evidence.GraderSpec{grader})
	lines := strings.FieldsFunc(answers, func(r rune) bool { return r == '\n' })
	if len(lines) != len(asks) {
		t.Fatalf("%d answers to %d asks", len(lines), len(asks))
	}
	for i, ask := range asks {
		var step evidence.Step
		err := json.Unmarshal([]byte(lines[i]), &step)
		if err != nil {
			t.Fatalf("%v: %s", err, lines[i])
		}
		step.Grader, step.Kind = ask.Grader, ask.Kind
		if step.Ask, err = ask.Raw(); err != nil {
			t.Fatal(err)
		}
		if err := dir.AddStep(step); err != nil {
			t.Fatal(err)
		}
	}
}
