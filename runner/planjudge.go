package runner

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/runner/evidence"
	"github.com/waza-isolate/waza/runner/spec"
)

// defaultJudgeSeconds is how long a judge may take for one answer.
const defaultJudgeSeconds = 120

// planJudge is the judge of a task whose graders ask one; else nil.
func planJudge(eval *spec.Eval, task spec.ResolvedTask) *evidence.Judge {
	declared := eval.Config.Judge
	if declared == nil || !grading.NeedJudge(gradersOf(task)) {
		return nil
	}
	return &evidence.Judge{
		BaseURL: declared.BaseURL, APIKeyEnv: declared.APIKeyEnv, Model: declared.Model, Override: eval.Config.JudgeModel,
		TimeoutSeconds: cmp.Or(declared.TimeoutSeconds, defaultJudgeSeconds),
		MaxTokens:      declared.MaxTokens, Temperature: declared.Temperature,
	}
}

// gradersOf are those of a task and of its attack's success.
func gradersOf(task spec.ResolvedTask) []evidence.GraderSpec {
	if task.Attack == nil {
		return task.Graders
	}
	return slices.Concat(task.Graders, task.Attack.Success)
}

// describeJudge tells of the judge; its key is nowhere in a plan.
func (t *Trial) describeJudge() string {
	j := t.Judge
	key := "without a key"
	if j.APIKeyEnv != "" {
		key = "the key in $" + j.APIKeyEnv
	}
	model := cmp.Or(j.Override, j.Model, "the graders' models")
	return fmt.Sprintf("%s at %s, %s, an answer within %ds", model, j.BaseURL, key, j.TimeoutSeconds)
}
