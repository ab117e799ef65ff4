package runner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// A run knows a skill's files as it knows fixtures.
func TestSkillsAreInputs(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := plan.File{WorkspaceFile: eval.WorkspaceFile{Path: sandbox.SkillsDir + "/tides/SKILL.md", Source: &eval.Source{Dir: dir, Path: "SKILL.md", Size: 1}}}
	trial := &plan.Trial{Skills: []plan.Skill{{Name: "tides", Files: []plan.File{file}}}}
	inputs, err := inputsOf(&eval.Eval{Path: filepath.Join(dir, "eval.yaml")}, nil, []*plan.Trial{trial})
	if err != nil || inputs["SKILL.md"] == "" {
		t.Errorf("inputs %v, %v", inputs, err)
	}
}
