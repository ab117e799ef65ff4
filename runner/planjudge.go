package runner

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
)

// defaultJudgeSeconds is how long a judge may take for one answer.
const defaultJudgeSeconds = 120

// planJudge is the judge of a task whose graders ask one, or whose agent a model answers; else
// nil. Without config.judge
// it is at the provider of the agent's models.
func planJudge(e *eval.Eval, task eval.ResolvedTask, models *Models, lookup func(string) (string, bool)) (*evidence.Judge, error) {
	if task.Responder == nil && !grading.NeedJudge(gradersOf(task)) {
		return nil, nil
	}
	declared := e.Config.Judge
	if declared == nil {
		var err error
		if declared, err = impliedJudge(e, models, lookup); err != nil {
			return nil, err
		}
	}
	return &evidence.Judge{
		BaseURL: declared.BaseURL, APIKeyEnv: declared.APIKeyEnv, Model: declared.Model, Override: e.Config.JudgeModel,
		TimeoutSeconds: cmp.Or(declared.TimeoutSeconds, defaultJudgeSeconds),
		MaxTokens:      declared.MaxTokens, Temperature: declared.Temperature, Effort: e.Config.JudgeEffort,
	}, nil
}

// impliedJudge is at the provider of the agent's models; where the agent asks none, at the
// one whose name the judge's model bears, else at the first whose key is there.
func impliedJudge(e *eval.Eval, models *Models, lookup func(string) (string, bool)) (*eval.Judge, error) {
	config := e.Config
	p := Provider{Kind: eval.KindOfModel(cmp.Or(config.JudgeModel, config.Model))}
	switch {
	case models != nil:
		p = models.chosen()
	case p.Kind == "":
		p.Kind = eval.KindOpenAI
		for _, kind := range []string{eval.KindOpenAI, eval.KindAnthropic, eval.KindGoogle} {
			_, variable := eval.ModelDefaults(kind)
			if key, _ := lookup(variable); key != "" {
				p.Kind = kind
				break
			}
		}
	}
	own, variable := eval.ModelDefaults(p.Kind)
	chat := eval.ChatDefault(p.Kind)
	switch {
	case p.Script != "" || chat == "" || len(p.Headers) > 0 || p.BaseURL != "" && p.BaseURL != own && p.Kind != eval.KindOpenAI:
		return nil, fmt.Errorf("a grader asks a model, and the provider %q of the agent's speaks no chat completions for it; give the eval config.judge with base_url and model", p.Name)
	case p.BaseURL != "" && p.Kind == eval.KindOpenAI:
		chat, variable = p.BaseURL, p.APIKeyEnv
	case p.APIKeyEnv != "":
		variable = p.APIKeyEnv
	}
	model := config.Model
	if models != nil {
		model = models.Model
	}
	return &eval.Judge{BaseURL: chat, APIKeyEnv: variable, Model: model}, nil
}

// gradersOf are those of a task, of its checkpoints and of its attack's success.
func gradersOf(task eval.ResolvedTask) []evidence.GraderSpec {
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
