package eval

import (
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// checkJudge holds config.judge to what its tags cannot say.
func checkJudge(doc *strictyaml.Document, j *Judge) {
	if j == nil {
		return
	}
	if _, err := (evidence.Judge{BaseURL: j.BaseURL}).Endpoint(); err != nil && j.BaseURL != "" {
		doc.Problemf(strictyaml.Path{"config", "judge", "base_url"}, "config.judge.base_url %v", err)
	}
	if j.APIKeyEnv != "" && !envPattern.MatchString(j.APIKeyEnv) {
		doc.Problemf(strictyaml.Path{"config", "judge", "api_key_env"}, "config.judge.api_key_env must be the name of an environment variable, and not what it holds")
	}
}

// checkAsked holds that there is a model to ask where a grader, whose config stands at
// at, asks one.
func (g *graders) checkAsked(name string, config any, at strictyaml.Path) {
	own, asks := grading.AsksJudge(config)
	c := g.eval.Config
	switch {
	case !asks || c.JudgeModel != "" || own != "":
	case c.Judge == nil && c.Model == "":
		g.doc.Problemf(at, "grader %q asks a model, and none is named; set config.judge_model, or config.judge with base_url and model", name)
	case c.Judge != nil && c.Judge.Model == "":
		g.doc.Problemf(at, "grader %q asks a model, and none is named; set config.judge.model", name)
	}
}
