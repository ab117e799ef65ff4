package results

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
)

// What judges cost counts every answer of theirs, and nothing else that was done for
// graders.
func TestJudgeOf(t *testing.T) {
	answered := evidence.Step{Kind: evidence.StepJudge, Answer: []byte(`{"text":"","input_tokens":7,"output_tokens":2}`)}
	uncounted := evidence.Step{Kind: evidence.StepJudge, Answer: []byte(`{"text":"x"}`)}
	failed := evidence.Step{Kind: evidence.StepJudge, Error: "no answer"}
	program := evidence.Step{Kind: evidence.StepProgram, Answer: []byte(`{"input_tokens":7}`)}
	if got := judgeOf([]evidence.Step{failed, program}); got != nil {
		t.Errorf("got %+v of no answer", got)
	}
	got := judgeOf([]evidence.Step{answered, failed, uncounted, program, answered})
	if diff := cmp.Diff(&Judge{Answers: 3, InputTokens: 14, OutputTokens: 4}, got); diff != "" {
		t.Error(diff)
	}
}
