package eval

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/frontmatter"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// Limits on the search for a skill by its name.
const (
	maxSearchDepth   = 6
	maxSearchEntries = 20_000
)

// foundSkills holds the skills of an eval.
type foundSkills struct {
	own    []Skill  // in directories that the eval names
	found  []Skill  // in other directories; the skill that the eval is about comes first
	looked []string // places where skills were looked for
}

func (s foundSkills) all() []Skill { return slices.Concat(s.own, s.found) }

func (s foundSkills) has(name string) bool {
	return slices.ContainsFunc(s.all(), func(s Skill) bool { return s.Is(name) })
}

// names returns the names of all skills.
func (s foundSkills) names() map[string]bool {
	names := map[string]bool{}
	for _, skill := range s.all() {
		names[skill.Name] = true
	}
	return names
}

// skillFinder looks for the skill that an eval is about.
type skillFinder struct {
	foundSkills
	doc  *strictyaml.Document // the eval
	eval *Eval
	name string // name of the skill
}

// findSkills reads the skills in the directories of the eval. It finds the skill under test as upstream waza
// does, together with the skills next to it: in paths.skills of the project if the eval has no directories,
// and in the directory where waza was started. Then it looks for that skill alone: around the eval, where
// agents look in a repository, and by its name below the directory where waza was started.
func findSkills(doc *strictyaml.Document, e *Eval, project *Project) foundSkills {
	dirs := e.Config.SkillDirectories
	f := &skillFinder{doc: doc, eval: e, name: e.Skill}
	f.own = skillsOf(doc, e, dirs, strictyaml.Path{"config", "skill_directories"})
	if f.name == "" {
		return f.foundSkills
	}
	if len(dirs) == 0 {
		dir := filepath.Join(project.Dir, project.SkillsDir())
		f.lookIn(dir)
		f.looked = append(f.looked, FromHere(dir))
	}
	if e.start != "" {
		f.lookIn(e.start)
		f.looked = append(f.looked, show(e.start))
	}
	for _, place := range f.around(project.Dir) {
		if !f.has(f.name) {
			f.look(place)
		}
	}
	f.looked = append(f.looked, "around the eval")
	for _, dir := range agentDirectories() {
		f.looked = append(f.looked, dir+"/skills")
	}
	if e.start != "" && !f.has(f.name) {
		f.looked = append(f.looked, "below "+show(e.start))
		f.search(e.start)
	}
	return f.foundSkills
}

// agentDirectories are the directories of a repository in which agents look for skills.
func agentDirectories() []string { return []string{".github", ".claude", ".agents", ".copilot"} }

// around returns directories that may be the skill: the readable ones around the eval, and those of the
// project in which agents look.
func (f *skillFinder) around(project string) (places []string) {
	if at, err := filepath.Abs(f.eval.Dir()); err == nil {
		for range maxSearchDepth {
			if !isWorkplace(at) || !mayRead(f.eval, at) {
				break
			}
			places = append(places, at, filepath.Join(at, "skills", f.name))
			at = filepath.Dir(at)
		}
	}
	for _, dir := range agentDirectories() {
		places = append(places, filepath.Join(project, dir, "skills", f.name))
	}
	return places
}

// lookIn adds the skills in a directory, and the directory itself if it is the skill.
func (f *skillFinder) lookIn(dir string) {
	f.look(dir)
	inner, _ := skillsBelow(dir) // no entries if the directory cannot be read
	for _, dir := range inner {
		f.take(dir)
	}
}

// look adds a directory if it is the skill.
func (f *skillFinder) look(dir string) {
	if hasSkillFile(dir) && ((Skill{dir: dir}).Is(f.name) || nameIn(dir) == f.name) {
		f.take(dir)
	}
	if agent, err := agentIn(f.eval, []string{FromHere(dir)}); err == nil && !f.has(f.name) {
		f.found = slices.Concat(agent, f.found)
	}
}

// nameIn returns the name in the SKILL.md in dir, or "" if it cannot be read.
func nameIn(dir string) string {
	content, err := readSkillFile(dir)
	if err != nil {
		return ""
	}
	s, _, err := frontmatter.Read(content)
	if err != nil {
		return ""
	}
	return s.Name
}

// take adds the skill in a directory, unless a skill with its name is there already. A skill that cannot be
// read is skipped with a warning.
func (f *skillFinder) take(dir string) {
	dir = FromHere(dir)
	skill, err := readSkill(f.eval, dir, true)
	if err != nil {
		f.doc.Warnf(strictyaml.Path{"skill"}, "the skill in %s is left out: %v", show(dir), err)
		return
	}
	other := func(s Skill) bool { return s.Name == skill.Name || same(s.dir, skill.dir) }
	switch {
	case slices.ContainsFunc(f.all(), other):
	case skill.Is(f.name):
		f.found = slices.Insert(f.found, 0, skill)
	default:
		f.found = append(f.found, skill)
	}
}

// at reports whether a skill is the directory in which waza was started, or directly below it.
func (s Skill) at(start string) bool {
	return start != "" && (same(s.dir, start) || same(filepath.Dir(s.dir), start))
}

// search looks for the skill below a directory. Of several, it takes the one whose path has the most elements
// in common with the eval's.
func (f *skillFinder) search(start string) {
	var best string
	entries, nearest := 0, -1
	evalDir, _ := filepath.Abs(f.eval.Dir())
	_ = filepath.WalkDir(start, func(at string, entry fs.DirEntry, err error) error {
		if entries++; entries > maxSearchEntries {
			return fs.SkipAll
		}
		if err != nil || !entry.IsDir() || at == start {
			return nil
		}
		rel, _ := filepath.Rel(start, at)
		hidden := strings.HasPrefix(entry.Name(), ".") && !slices.Contains(agentDirectories(), entry.Name())
		if hidden || entry.Name() == "node_modules" || strings.Count(rel, string(filepath.Separator)) >= maxSearchDepth {
			return fs.SkipDir
		}
		if !hasSkillFile(at) || entry.Name() != f.name && nameIn(at) != f.name {
			return nil
		}
		abs, _ := filepath.Abs(at)
		if shared := sharedSteps(abs, evalDir); shared > nearest {
			best, nearest = at, shared
		}
		return nil
	})
	if best != "" {
		f.take(best)
	}
}

// sharedSteps returns how many leading elements two paths share.
func sharedSteps(a, b string) (n int) {
	left, right := strings.Split(a, string(filepath.Separator)), strings.Split(b, string(filepath.Separator))
	for n < min(len(left), len(right)) && left[n] == right[n] {
		n++
	}
	return n
}
