package runner

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/agents/llm"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/sandbox"
)

// defaultSkillsAt is where in the workspace agents find skills that look nowhere else.
const defaultSkillsAt = ".waza/skills"

// Skill is a skill of a trial. Its files are by absolute path, below [sandbox.SkillsDir].
type Skill struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Files       []File `json:"files"`
}

// planSkills places the skills of a task.
func (t *Trial) planSkills(e *eval.Eval, skills []eval.Skill) error {
	if len(skills) == 0 {
		return nil
	}
	t.Agent.SkillsAt = skillsAt(e)
	paths := t.paths()
	if i := slices.IndexFunc(paths, func(p string) bool { return inTheWay(p, t.Agent.SkillsAt) }); i >= 0 {
		return fmt.Errorf("%q is in the way of the skills, which are put at %s in the workspace; remove one of them", paths[i], t.Agent.SkillsAt)
	}
	for _, s := range skills {
		planned := Skill{Name: s.Name, Description: s.Description}
		for _, f := range s.Files {
			f.Path = path.Join(sandbox.SkillsDir, s.Name, f.Path)
			planned.Files = append(planned.Files, File{f})
		}
		t.Skills = append(t.Skills, planned)
	}
	return nil
}

// skillsAt is where in the workspace the eval's agent looks for skills.
func skillsAt(e *eval.Eval) string {
	at := ""
	switch {
	case e.Adapter != nil:
		at = e.Adapter.Skills
	case e.Config.Agent != nil:
		at = e.Config.Agent.Skills
	}
	return path.Clean(cmp.Or(at, defaultSkillsAt))
}

// inTheWay says whether a file and a link cannot both be.
func inTheWay(file, link string) bool {
	return file == link || strings.HasPrefix(file, link+"/") || strings.HasPrefix(link, file+"/")
}

// putSkills puts the skills into the agent's box, out of the workspace.
func (tr *trialRun) putSkills(ctx context.Context) error {
	var files []File
	for _, s := range tr.plan.Skills {
		files = append(files, s.Files...)
	}
	return tr.put(ctx, sandbox.Agent, "/", files)
}

// skillsFor are the skills as the loop of executor llm finds them.
func skillsFor(t *Trial, box sandbox.Layout) []llm.Skill {
	var all []llm.Skill
	for _, s := range t.Skills {
		all = append(all, llm.Skill{Name: s.Name, Description: s.Description, Dir: box.At(path.Join(sandbox.SkillsDir, s.Name))})
	}
	return all
}
