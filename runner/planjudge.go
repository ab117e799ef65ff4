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

// planJudge is the judge of a task whose graders ask one, or whose agent a model answers; else
// nil. Without config.judge
// it is at the provider of the agent's models.
func planJudge(eval *spec.Eval, task spec.ResolvedTask, models *Models, lookup func(string) (string, bool)) (*evidence.Judge, error) {
	if task.Responder == nil && !grading.NeedJudge(gradersOf(task)) {
		return nil, nil
	}
	declared := eval.Config.Judge
	if declared == nil {
		var err error
		if declared, err = impliedJudge(eval, models, lookup); err != nil {
			return nil, err
		}
	}
	return &evidence.Judge{
		BaseURL: declared.BaseURL, APIKeyEnv: declared.APIKeyEnv, Model: declared.Model, Override: eval.Config.JudgeModel,
		TimeoutSeconds: cmp.Or(declared.TimeoutSeconds, defaultJudgeSeconds),
		MaxTokens:      declared.MaxTokens, Temperature: declared.Temperature, Effort: eval.Config.JudgeEffort,
	}, nil
}

// impliedJudge is at the provider of the agent's models; where the agent asks none, at the
// one whose name the judge's model bears, else at the first whose key is there.
func impliedJudge(eval *spec.Eval, models *Models, lookup func(string) (string, bool)) (*spec.Judge, error) {
	config := eval.Config
	p := Provider{Kind: spec.KindOfModel(cmp.Or(config.JudgeModel, config.Model))}
	switch {
	case models != nil:
		p = models.chosen()
	case p.Kind == "":
		p.Kind = spec.KindOpenAI
		for _, kind := range []string{spec.KindOpenAI, spec.KindAnthropic, spec.KindGoogle} {
			_, variable := spec.ModelDefaults(kind)
			if key, _ := lookup(variable); key != "" {
				p.Kind = kind
				break
			}
		}
	}
	own, variable := spec.ModelDefaults(p.Kind)
	chat := spec.ChatDefault(p.Kind)
	switch {
	case p.Script != "" || chat == "" || len(p.Headers) > 0 || p.BaseURL != "" && p.BaseURL != own && p.Kind != spec.KindOpenAI:
		return nil, fmt.Errorf("a grader asks a model, and the provider %q of the agent's speaks no chat completions for it; give the eval config.judge with base_url and model", p.Name)
	case p.BaseURL != "" && p.Kind == spec.KindOpenAI:
		chat, variable = p.BaseURL, p.APIKeyEnv
	case p.APIKeyEnv != "":
		variable = p.APIKeyEnv
	}
	model := config.Model
	if models != nil {
		model = models.Model
	}
	return &spec.Judge{BaseURL: chat, APIKeyEnv: variable, Model: model}, nil
}

// gradersOf are those of a task, of its checkpoints and of its attack's success.
func gradersOf(task spec.ResolvedTask) []evidence.GraderSpec {
	all := slices.Clone(task.Graders)
	for _, c := range task.Checkpoints {
		all = append(all, c.Graders...)
	}
	if task.Attack != nil {
		all = append(all, task.Attack.Success...)
	}
	return all
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
