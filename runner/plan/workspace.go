package plan

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/runner/gitrepo"
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

// Repo is a git repository of a trial's workspace.
type Repo struct {
	eval.Repo
	SHA string `json:"sha,omitempty"` // of its commit, once it was fetched

	Tree *gitrepo.Tree `json:"-"` // its files, likewise
}

// paths are the places of the workspace that the task takes.
func (t *Trial) paths() (all []string) {
	for _, f := range t.Files {
		all = append(all, f.Path)
	}
	for _, r := range t.Repos {
		all = append(all, r.Dest)
	}
	return all
}

// Link is a link of ours in the workspace.
type Link struct{ Name, Target string }

// Links are those of the trial, in a container of a layout, but for places where something of the
// workspace stands or is in the way.
func (t *Trial) Links(container sandbox.Layout) []Link {
	var all []Link
	for _, name := range eval.ClientConfigs() {
		all = append(all, Link{name, container.MCPConfig})
	}
	if len(t.Skills) > 0 {
		all = append(all, Link{t.Agent.SkillsAt, container.At(sandbox.SkillsDir)})
	}
	taken := t.paths()
	return slices.DeleteFunc(all, func(l Link) bool {
		return slices.ContainsFunc(taken, func(name string) bool { return inTheWay(name, l.Name) })
	})
}
