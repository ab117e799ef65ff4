package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/internal/judgetest"
)

// question is the part of a request to a model that these tests check.
type question struct {
	Effort   string `json:"reasoning_effort"`
	Messages []struct {
		Content string `json:"content"`
	} `json:"messages"`
}

// serveModel is a provider that answers every request with a judgement.
func serveModel(t *testing.T) (url string, all func() []question) {
	t.Helper()
	var mu sync.Mutex
	var got []question
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var one question
		if err := json.NewDecoder(r.Body).Decode(&one); err != nil {
			t.Error(err)
		}
		mu.Lock()
		got = append(got, one)
		mu.Unlock()
		judgetest.Say(w, judgement)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []question {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	}
}

const effortEval = `
-- eval.yaml --
name: NAME
skill: stock
config:
  trials_per_task: 1
  executor: llm
  model: m-1
  models: {openai: {base_url: "PROVIDER", api_key_env: NO_KEY}}
  reasoning_effort: high
  judge_reasoning_effort: low
  group_by: model
  trigger_skill_routing: true
  skill_directories: [skills]
  inject_skill_body: false
graders:
  - {type: prompt, name: by_the_eval, config: {prompt: Is it good?}}
  - {type: prompt, name: by_itself, config: {prompt: Is it good?, reasoning_effort: max}}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}}
-- skills/stock/SKILL.md --
---
name: stock
description: Counts hinges.
---
Count them.
`

// How much models are to reason goes to the agent's and to the judge's; results are
// grouped by the agent's; and the agent is told to invoke the skill.
func TestEffort(t *testing.T) {
	t.Parallel()
	url, all := serveModel(t)
	p := newLocalProject(t, strings.ReplaceAll(effortEval, "PROVIDER", url))
	p.env = append(p.env, "NO_KEY=none-is-needed")
	p.startLocal().wait(exitOK)
	var efforts []string
	for _, one := range all() {
		efforts = append(efforts, one.Effort)
	}
	slices.Sort(efforts) // graders ask at once
	if diff := cmp.Diff([]string{"high", "low", "max"}, efforts); diff != "" {
		t.Error(diff)
	}
	if system := all()[0].Messages[0].Content; !strings.Contains(system, "task is one that the skill stock is for") {
		t.Errorf("the agent is not told to invoke the skill: %q", system)
	}
	got := p.results()
	if g := got.Summary.Groups; len(g) != 1 || g[0].Name != "m-1" || g[0].Passed != 1 || g[0].Total != 1 || got.Tasks[0].Group != "m-1" {
		t.Errorf("groups %+v, the task's %q", g, got.Tasks[0].Group)
	}

	eval := p.read("eval.yaml")
	for executor, want := range map[string]string{
		"mock":  "config.reasoning_effort has no effect: executor mock asks no model",
		"codex": `"model_reasoning_effort=high"`, "claude": `"--effort=high"`, "copilot": `"--reasoning-effort=high"`,
	} {
		p.write("eval.yaml", strings.NewReplacer("executor: llm", "executor: "+executor, "openai: {base_url: \""+url+"\", api_key_env: NO_KEY}", "stub: {script: model.yaml}").Replace(eval))
		p.write("model.yaml", "turns: [{say: x}]")
		c := p.start("run", "eval.yaml", "--dry-run", "--isolate", "--skip-graders").wait(exitOK)
		if said := c.stdout.String() + c.stderr.String(); !strings.Contains(said, want) {
			t.Errorf("executor %s: it does not say %q:\n%s", executor, want, said)
		}
	}
	p.write("eval.yaml", strings.Replace(eval, "executor: llm", "executor: gemini", 1))
	if said := p.start("run", "eval.yaml", "--dry-run").wait(exitUsage).stderr.String(); !strings.Contains(said, "does not support it") {
		t.Error(said)
	}
}
