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

// defaultSkillsAt is the default directory of skills in the workspace.
const defaultSkillsAt = ".waza/skills"

// Skill is a skill of a trial. Its files have absolute paths below [sandbox.SkillsDir].
type Skill struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Files       []File `json:"files"`
}

// planSkills plans the skills of a task, and returns the path in the workspace at which the
// agent looks for them. taken are the paths of other files.
func planSkills(e *eval.Eval, skills []eval.Skill, taken []string) (at string, planned []Skill, err error) {
	if len(skills) == 0 {
		return "", nil, nil
	}
	at = skillsAt(e)
	if i := slices.IndexFunc(taken, func(p string) bool { return inTheWay(p, at) }); i >= 0 {
		return "", nil, fmt.Errorf("%q conflicts with the skills, which are at %s in the workspace; remove one of them", taken[i], at)
	}
	for _, s := range skills {
		one := Skill{Name: s.Name, Description: s.Description}
		for _, f := range s.Files {
			f.Path = path.Join(sandbox.SkillsDir, s.Name, f.Path)
			one.Files = append(one.Files, File{f})
		}
		planned = append(planned, one)
	}
	return at, planned, nil
}

// skillsAt returns the path in the workspace at which the eval's agent looks for skills.
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

// inTheWay reports whether a file prevents a link from being created.
func inTheWay(file, link string) bool {
	return file == link || strings.HasPrefix(file, link+"/") || strings.HasPrefix(link, file+"/")
}

// Repo is a git repository of a trial's workspace.
type Repo struct {
	eval.Repo
	SHA string `json:"sha,omitempty"` // id of its commit; set by fetching

	Tree *gitrepo.Tree `json:"-"` // files; set by fetching
}

// pathsOf returns the paths in the workspace that files and repositories occupy.
func pathsOf(files []File, repos []Repo) (all []string) {
	for _, f := range files {
		all = append(all, f.Path)
	}
	for _, r := range repos {
		all = append(all, r.Dest)
	}
	return all
}
