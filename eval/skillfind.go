package eval

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/frontmatter"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// Bounds of the search for a skill by its name.
const (
	maxSearchDepth   = 6
	maxSearchEntries = 20_000
)

// readsSkills reports whether an executor's agent is known to read skills.
func readsSkills(executor string) bool {
	return !slices.Contains([]string{"mock", "script", "command"}, executor)
}

// findSkills finds the skill that the eval is about, as waza does, and those that are beside
// it: in paths.skills of the project where the eval names no directories, and in the
// directory in which waza was started. Then, for the skill alone: around the eval, where
// agents look in a repository, and by its name below where waza was started.
func (l *loader) findSkills() {
	name := l.eval.Skill
	if name == "" {
		return
	}
	project := l.project
	if len(l.eval.Config.SkillDirectories) == 0 {
		dir := filepath.Join(project.Dir, project.SkillsDir())
		l.lookIn(dir, name)
		l.looked = append(l.looked, l.nearer(dir))
	}
	if start := l.eval.start; start != "" {
		l.lookIn(start, name)
		l.looked = append(l.looked, show(start))
	}
	for _, place := range l.placesAround(name) {
		if !l.hasSkill(name) {
			l.look(place, name)
		}
	}
	l.looked = append(l.looked, "around the eval")
	for _, dir := range agentDirectories() {
		l.looked = append(l.looked, dir+"/skills")
	}
	if start := l.eval.start; start != "" && !l.hasSkill(name) {
		l.looked = append(l.looked, "below "+show(start))
		l.search(start, name)
	}
}

func (l *loader) hasSkill(name string) bool {
	return slices.ContainsFunc(slices.Concat(l.evalSkills, l.foundSkills), func(s Skill) bool { return s.is(name) })
}

// is reports whether a skill is called name, by itself or by its directory.
func (s Skill) is(name string) bool {
	if s.Name == name {
		return true
	}
	abs, err := filepath.Abs(s.dir)
	return err == nil && filepath.Base(abs) == name
}

// agentDirectories are those of a repository in which agents look for skills.
func agentDirectories() []string { return []string{".github", ".claude", ".agents", ".copilot"} }

// placesAround are the directories that may be the skill: those around the eval that it may
// read, and those in which agents look.
func (l *loader) placesAround(name string) (places []string) {
	if at, err := filepath.Abs(l.eval.Dir()); err == nil {
		for range maxSearchDepth {
			if !isWorkplace(at) || !l.mayRead(at) {
				break
			}
			places = append(places, at, filepath.Join(at, "skills", name))
			at = filepath.Dir(at)
		}
	}
	for _, dir := range agentDirectories() {
		places = append(places, filepath.Join(l.project.Dir, dir, "skills", name))
	}
	return places
}

// lookIn takes the skills that stand in a directory, and the directory where that is the
// skill called name.
func (l *loader) lookIn(dir, name string) {
	l.look(dir, name)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if inner := filepath.Join(dir, entry.Name()); !strings.HasPrefix(entry.Name(), ".") && hasSkillFile(inner) {
			l.take(inner, name)
		}
	}
}

// look takes the skill that a directory is, where it is called name.
func (l *loader) look(dir, name string) {
	if hasSkillFile(dir) && ((Skill{dir: dir}).is(name) || nameIn(dir) == name) {
		l.take(dir, name)
	}
}

// nearer is dir as it is written from where waza was started.
func (l *loader) nearer(dir string) string {
	here, err := filepath.Abs(".")
	abs, errDir := filepath.Abs(dir)
	if rel, errRel := filepath.Rel(here, abs); err == nil && errDir == nil && errRel == nil && filepath.IsLocal(rel) {
		return rel
	}
	return dir
}

func hasSkillFile(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, frontmatter.SkillFile))
	return err == nil && info.Mode().IsRegular()
}

// nameIn is the name that the skill in dir gives itself; empty where it cannot be read.
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

// take adds the skill that a directory is, unless there is one of its name. One that cannot
// be read is left out with a warning.
func (l *loader) take(dir, name string) {
	dir = l.nearer(dir)
	skill, err := l.readSkill(dir, true)
	if err != nil {
		l.doc.Warnf(strictyaml.Path{"skill"}, "the skill in %s is left out: %v", show(dir), err)
		return
	}
	other := func(s Skill) bool { return s.Name == skill.Name || same(s.dir, skill.dir) }
	if slices.ContainsFunc(slices.Concat(l.evalSkills, l.foundSkills), other) {
		return
	}
	if skill.is(name) {
		l.foundSkills = slices.Insert(l.foundSkills, 0, skill)
		return
	}
	l.foundSkills = append(l.foundSkills, skill)
}

// search looks for the skill below a directory: of several of its name the one nearest to
// the eval, by how much of its path is the eval's too.
func (l *loader) search(start, name string) {
	var best string
	entries, nearest := 0, -1
	evalDir, _ := filepath.Abs(l.eval.Dir())
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
		if !hasSkillFile(at) || entry.Name() != name && nameIn(at) != name {
			return nil
		}
		abs, _ := filepath.Abs(at)
		if shared := sharedSteps(abs, evalDir); shared > nearest {
			best, nearest = at, shared
		}
		return nil
	})
	if best != "" {
		l.take(best, name)
	}
}

// sharedSteps is how many steps two paths begin with alike.
func sharedSteps(a, b string) (n int) {
	left, right := strings.Split(a, string(filepath.Separator)), strings.Split(b, string(filepath.Separator))
	for n < min(len(left), len(right)) && left[n] == right[n] {
		n++
	}
	return n
}

// checkFound refuses an eval whose skill is nowhere, where its agent would work without it.
func (l *loader) checkFound(tasks []ResolvedTask) {
	name, at := l.eval.Skill, strictyaml.Path{"skill"}
	if name == "" || len(tasks) == 0 || l.opts.NoSkills {
		return
	}
	for _, task := range tasks {
		if slices.ContainsFunc(task.Skills, func(s Skill) bool { return s.is(name) }) || slices.Contains(l.eval.Config.DisabledSkills, name) {
			return
		}
	}
	where := fmt.Sprintf("no skill is called %q in %s", name, strings.Join(l.looked, ", "))
	if !readsSkills(l.eval.Config.Executor) {
		l.doc.Warnf(at, "%s, so that executor %s runs without it", where, l.eval.Config.Executor)
		return
	}
	l.doc.Problemf(at, "%s; start waza in the root of its repository, or name its directory in config.skill_directories", where)
}
