package runner

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/sandbox"
)

func skillTask() eval.ResolvedTask {
	file := eval.WorkspaceFile{Path: "SKILL.md", Content: []byte("Ask the moon.")}
	return eval.ResolvedTask{ID: "t", Prompt: "p", Skills: []eval.Skill{{Name: "tides", Description: "When.", Files: []eval.WorkspaceFile{file}}}}
}

// Where an agent looks for skills there is a link to them, and nothing else of theirs in
// the workspace.
func TestSkillsArePutAside(t *testing.T) {
	for at, e := range map[string]*eval.Eval{
		".waza/skills":   {},
		".tool/skills":   {Config: eval.Config{Agent: &eval.Agent{Command: "tool", Skills: "./.tool/skills/"}}},
		".claude/skills": {Adapter: &adapter.Adapter{Skills: ".claude/skills"}},
	} {
		trial := Trial{Files: []File{fileOf("notes.txt", "x")}}
		if err := trial.planSkills(e, skillTask().Skills); err != nil {
			t.Fatal(err)
		}
		var links []string
		for _, l := range trial.links(sandbox.ContainerLayout()) {
			links = append(links, l.name+" -> "+l.target)
		}
		if want := at + " -> " + sandbox.SkillsDir; !slices.Contains(links, want) || !slices.Contains(sandbox.ContainerLayout().Ours(), sandbox.SkillsDir) {
			t.Errorf("links %q, want %q, which is not collected", links, want)
		}
		if diff := cmp.Diff(sandbox.SkillsDir+"/tides/SKILL.md", trial.Skills[0].Files[0].Path); diff != "" {
			t.Error(diff)
		}
		if env := agentEnv(&trial, sandbox.ContainerLayout(), nil); !slices.Contains(env, "WAZA_SKILLS="+sandbox.SkillsDir) {
			t.Errorf("environment %q", env)
		}
		trial = Trial{Files: []File{fileOf(at+"/own/SKILL.md", "x")}}
		if err := trial.planSkills(e, skillTask().Skills); err == nil || !strings.Contains(err.Error(), "in the way of the skills") {
			t.Errorf("a file in the way: %v", err)
		}
	}
}

// A run knows a skill's files as it knows fixtures.
func TestSkillsAreInputs(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := File{eval.WorkspaceFile{Path: sandbox.SkillsDir + "/tides/SKILL.md", Source: &eval.Source{Dir: dir, Path: "SKILL.md", Size: 1}}}
	trial := &Trial{Skills: []Skill{{Name: "tides", Files: []File{file}}}}
	inputs, err := Inputs(&eval.Eval{Path: filepath.Join(dir, "eval.yaml")}, nil, []*Trial{trial})
	if err != nil || inputs["SKILL.md"] == "" {
		t.Errorf("inputs %v, %v", inputs, err)
	}
}

// Executor llm can ask those that speak chat completions, and says what to do of others.
func TestModelsForLLM(t *testing.T) {
	models := func(kind, model, script string) *Models {
		return &Models{Provider: "p", Model: model, Providers: []Provider{{Name: "o"}, {Name: "p", Kind: kind, Script: script, APIKeyEnv: "SOME_KEY"}}}
	}
	for _, test := range []struct {
		models *Models
		model  string
		says   string
	}{
		{models(eval.KindOpenAI, "m", ""), "m", ""},
		{models(eval.KindAzure, "m", ""), "m", ""},
		{models(eval.KindOpenAI, "", "turns.yaml"), scriptedModel, ""},
		{models(eval.KindOpenAI, "", ""), "", "executor llm needs config.model"},
		{models(eval.KindAnthropic, "m", ""), "", "base_url: https://api.anthropic.com/v1 and api_key_env: SOME_KEY"},
		{models(eval.KindGoogle, "m", ""), "", "base_url: https://generativelanguage.googleapis.com/v1beta/openai"},
		{nil, "", "say in config.models where one is"},
	} {
		err := test.models.forLLM("llm")
		if (test.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.says) || err == nil && test.models.Model != test.model {
			t.Errorf("%+v: %v, want %q", test.models, err, test.says)
		}
		if err := test.models.forLLM("command"); err != nil {
			t.Error(err)
		}
	}
}
