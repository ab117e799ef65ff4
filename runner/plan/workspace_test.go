package plan

import (
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
		trial := Trial{Files: []File{NewFile("notes.txt", "x")}}
		var err error
		if trial.Agent.SkillsAt, trial.Skills, err = planSkills(e, skillTask().Skills, []string{"notes.txt"}); err != nil {
			t.Fatal(err)
		}
		var links []string
		for _, l := range trial.Links(sandbox.ContainerLayout()) {
			links = append(links, l.Name+" -> "+l.Target)
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
		if _, _, err := planSkills(e, skillTask().Skills, []string{at + "/own/SKILL.md"}); err == nil || !strings.Contains(err.Error(), "conflicts with the skills") {
			t.Errorf("a file in the way: %v", err)
		}
	}
}

func TestLinks(t *testing.T) {
	const root, copilot = ".mcp.json -> /etc/waza/mcp.json", ".copilot/mcp.json -> /etc/waza/mcp.json"
	for _, test := range []struct {
		name  string
		files []string
		want  []string
	}{
		{"nothing else", nil, []string{root, copilot}},
		{"others", []string{"mcp.json", ".mcp.jsonl", ".copilot/agents.md"}, []string{root, copilot}},
		{"its own file", []string{".mcp.json"}, []string{copilot}},
		{"a file for a directory", []string{".copilot"}, []string{root}},
		{"a directory for a file", []string{".mcp.json/x"}, []string{copilot}},
	} {
		t.Run(test.name, func(t *testing.T) {
			trial := new(Trial)
			for _, name := range test.files {
				trial.Files = append(trial.Files, NewFile(name, ""))
			}
			var links []string
			for _, l := range trial.Links(sandbox.ContainerLayout()) {
				links = append(links, l.Name+" -> "+l.Target)
			}
			if diff := cmp.Diff(test.want, links); diff != "" {
				t.Error(diff)
			}
		})
	}
}
