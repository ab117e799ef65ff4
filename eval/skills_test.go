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
skill_directories: [../../others]
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
