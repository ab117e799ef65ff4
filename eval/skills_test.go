package eval_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/waza-isolate/waza/eval"
)

const skillEval = `
-- tides/SKILL.md --
---
name: tides
description: >
  When the tide
  is high.
metadata: {version: 1}
---
-- tides/data/table.txt --
six
-- tides/.git/config --
secret
-- tides/evals/tasks/task.yaml --
id: t
inputs: {prompt: p}
-- others/ferry/SKILL.md --
---
name: ferry
description: When it goes.
---
-- others/ebb/SKILL.md --
---
name: ebb
description: Never.
---
-- others/.draft/SKILL.md --
no skill yet
-- tides/evals/eval.yaml --
name: n
config:
  trials_per_task: 1
  timeout_seconds: 1
  executor: mock
  skill_directories: [.., ../../others]
  required_skills: [ferry]
  disabled_skills: [ebb]
tasks: [tasks/*.yaml]
`

// A skill holds its eval, as waza lays projects out: the agent must not find it there.
func TestSkills(t *testing.T) {
	unpack(t, txtar.Parse([]byte(skillEval)))
	_, tasks, err := eval.Load("tides/evals/eval.yaml", eval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range tasks[0].Skills {
		got = append(got, s.Name+": "+s.Description)
		for _, f := range s.Files {
			got = append(got, f.Path)
		}
	}
	want := []string{"tides: When the tide is high.\n", "SKILL.md", "data/table.txt", "ferry: When it goes.", "SKILL.md"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A custom agent stands for a skill, and a grader checks that it keeps to its tools.
func TestCustomAgents(t *testing.T) {
	const reader = "-- dir/reader.agent.md --\n---\nname: reader\ntools: [view]\n---\nRead.\n"
	const constraint = "graders: [{type: tool_constraint, name: own, config: {reject_tools: [{tool: run}]}}]\n"
	for _, test := range []struct {
		name, files, eval, task string
		noSkills                bool
		want                    string // skills and graders, or a part of the error
	}{
		{"by its name", reader, "skill: reader\n", "", false, "reader agent_tools_implicit"},
		{"by its file", "-- dir/x.agent.md --\n---\ntools: []\n---\n", "skill: x\n", "", false, "x agent_tools_implicit"},
		{"without a name", reader, "", "", false, "reader agent_tools_implicit"},
		{"in a directory of that", strings.Replace(reader, "dir/", "dir/sub/", 1) + "-- dir/other.agent.md --\n---\ntools: []\n---\n", "skill: reader\n", "", false, "reader agent_tools_implicit"},
		{"without tools", "-- dir/reader.agent.md --\n---\nname: reader\n---\n", "skill: reader\n", "", false, "reader"},
		{"beside a skill", reader + "-- dir/SKILL.md --\n---\nname: other\ndescription: d\n---\n", "", "", false, "other"},
		{"with a constraint of the eval's", reader, "skill: reader\n" + constraint, "", false, "reader own"},
		{"with a constraint of the task's", reader, "skill: reader\n", constraint, false, "reader own"},
		{"without skills", reader, "skill: reader\n", "", true, "reader"},
		{"disabled", reader, "skill: reader\n", "disabled", false, ""},
		{"with tools that are no list", "-- dir/reader.agent.md --\n---\ntools: view\n---\n", "", "", false, "tools is a list of names"},
		{"without front matter", "-- dir/reader.agent.md --\ntools: view\n", "", "", false, "does not begin with front matter"},
		{"with a name that is a path", "-- dir/reader.agent.md --\n---\nname: ../x\n---\n", "", "", false, "gives the name"},
	} {
		config := ""
		if test.task == "disabled" {
			test.task, config = "", ", disabled_skills: [reader]"
		}
		unpack(t, txtar.Parse([]byte(test.files+"-- eval.yaml --\nname: n\n"+test.eval+"config: {executor: mock, skill_directories: [dir]"+config+"}\ntasks: [t.yaml]\n"+
			"-- t.yaml --\nid: t\ninputs: {prompt: p}\n"+test.task)))
		_, tasks, err := eval.Load("eval.yaml", eval.Options{NoSkills: test.noSkills})
		if err != nil {
			if test.want == "" || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v", test.name, err)
			}
			continue
		}
		var got []string
		for _, s := range tasks[0].Skills {
			got = append(got, s.Name)
		}
		for _, g := range tasks[0].Graders {
			got = append(got, g.Name)
		}
		if got := strings.Join(got, " "); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// A task's directories replace the eval's, except for skills where waza was started.
func TestTaskSkills(t *testing.T) {
	skill := func(dir, name string) string {
		return "-- " + dir + "/SKILL.md --\n---\nname: " + name + "\ndescription: d\n---\n"
	}
	skills := skill("evals/skills/tides", "tides") + skill("evals/skills/ferry", "ferry") +
		skill("evals/more/ebb", "ebb") + skill("evals/more/older", "tides") + skill("here", "here")
	for _, test := range []struct{ config, eval, task, want string }{
		{"required_skills: [ferry]", "", "", "tides ferry here"},
		{"required_skills: [ferry]", "", "skill_directories: [more/ebb]", "ebb here warned"},
		{"", "", "skill_directories: [more]", "ebb tides here"},
		{"", "", "skill_directories: [skills/ferry, more/older]", "ferry tides here"},
		{"", "", "skill_directories: []", "tides ferry here"},
		{"", "scenario: cli", "skill_directories: []", "here warned"},
		{"disabled_skills: [tides]", "", "skill_directories: [more]", "ebb here"},
		{`disabled_skills: ["*"]`, "", "skill_directories: [more]", ""},
		{`disabled_skills: ["*"]`, "", "", ""},
	} {
		unpack(t, txtar.Parse([]byte(skills+"-- evals/eval.yaml --\nname: n\nskill: tides\n"+test.eval+"\nconfig:\n  executor: mock\n"+
			"  skill_directories: [skills/tides, skills/ferry]\n  "+test.config+"\ntasks: [t.yaml]\n"+
			"-- evals/t.yaml --\nid: t\ninputs: {prompt: p}\n"+test.task+"\n")))
		loaded, tasks, err := eval.Load("evals/eval.yaml", eval.Options{})
		if err != nil {
			t.Errorf("%+v: %v", test, err)
			continue
		}
		var got []string
		for _, s := range tasks[0].Skills {
			got = append(got, s.Name)
		}
		if len(loaded.Warnings) > 0 {
			got = append(got, "warned")
		}
		if got := strings.Join(got, " "); got != test.want {
			t.Errorf("%+v: got %q, warnings %v", test, got, loaded.Warnings)
		}
	}
}

// The text of the skill under evaluation goes before prompts unless the eval says no, and before
// those of trigger tests only if it says yes.
func TestInjected(t *testing.T) {
	for _, test := range []struct {
		config             string
		task, trigger      bool
		checked, reminders int
	}{
		{"", true, false, 0, 1},
		{"inject_skill_body: true", true, true, 0, 0},
		{"inject_skill_body: false", false, false, 1, 0},
		{"inject_skill_body: null", true, false, 0, 1},
		{"inject_skill_body: false, trigger_skill_routing: true", false, false, 1, 0},
		{"trigger_skill_routing: true", true, false, 0, 2},
	} {
		unpack(t, txtar.Parse([]byte(`
-- eval.yaml --
name: n
skill: of-files
config: {trials_per_task: 1, timeout_seconds: 1, executor: llm, models: {m: {kind: openai, api_key_env: K}}, model: m/x, skill_directories: [of-files], `+test.config+`}
tasks: [t.yaml]
-- of-files/SKILL.md --
---
name: Files
description: d
---
-- trigger_tests.yaml --
skill: of-files
should_trigger_prompts: [{prompt: p}]
-- t.yaml --
{id: t, inputs: {prompt: p}, expected: {should_trigger: true}}
`)))
		e, tasks, err := eval.Load("eval.yaml", eval.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, task := e.Injected(tasks[0].Skills, tasks[0].Trigger)
		_, trigger := e.Injected(tasks[1].Skills, tasks[1].Trigger)
		if task != test.task || trigger != test.trigger || len(tasks[0].Graders) != test.checked || len(e.Warnings) != test.reminders {
			t.Errorf("%q: task %v, trigger %v, graders %v, warnings %v", test.config, task, trigger, tasks[0].Graders, e.Warnings)
		}
	}
}

// Nothing outside of a skill's directory comes with it.
func TestSkillsStayInside(t *testing.T) {
	unpack(t, txtar.Parse([]byte(skillEval)))
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, leads := range []struct{ name, says string }{
		{"tides/link", "skill tides: file link cannot be read"},
		{"tides/SKILL.md", "SKILL.md cannot be read"}, // which is gone then
	} {
		name, says := leads.name, leads.says
		if err := os.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, name); err != nil {
			t.Fatal(err)
		}
		if _, _, err := eval.Load("tides/evals/eval.yaml", eval.Options{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s leads out: %v", name, err)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}
