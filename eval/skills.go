package eval

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/frontmatter"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// maxSkillFiles is how many files the skills of a task may have.
const maxSkillFiles = 10_000

// Skill is instructions for a kind of work, which an agent reads where it sees fit: a
// directory with a SKILL.md.
type Skill struct {
	Name        string
	Description string
	Files       []WorkspaceFile // by path in the directory
	dir         string
}

// skills finds the skills of directories that stand at a place of a document.
func (l *loader) skills(doc *strictyaml.Document, dirs []string, at strictyaml.Path) []Skill {
	var all []Skill
	for i, dir := range dirs {
		here := append(slices.Clone(at), i)
		if dir == "" || filepath.IsAbs(dir) || strings.ContainsAny(dir, "\\\x00") {
			doc.Problemf(here, "%s must be a directory, relative to the eval's", here)
			continue
		}
		at := l.skillDirectory(filepath.FromSlash(dir))
		if !l.mayRead(at) {
			doc.Problemf(here, "%s: %s is outside of the eval's repository; start waza in a directory that holds both", here, show(at))
			continue
		}
		found, err := l.skillsIn(doc, here, at)
		switch {
		case errors.Is(err, errNoSkills) && l.eval.Skill != "": // which is looked for elsewhere too
			doc.Warnf(here, "%s: %v", here, err)
		case err != nil:
			doc.Problemf(here, "%s: %v", here, err)
		}
		all = append(all, found...)
	}
	return all
}

// skillDirectory is a directory relative to the eval's, or where there is none to that in
// which waza was started.
func (l *loader) skillDirectory(dir string) string {
	roots := l.eval.roots()
	for _, root := range roots {
		if info, err := os.Stat(filepath.Join(root, dir)); err == nil && info.IsDir() {
			return filepath.Join(root, dir)
		}
	}
	return filepath.Join(roots[0], dir)
}

// mayRead reports whether skills may be read in a directory: in that of the eval and the
// one around it, in the one in which waza was started, and in the eval's repository.
func (l *loader) mayRead(dir string) bool {
	at, err := filepath.Abs(l.eval.Dir())
	to, errTo := filepath.Abs(dir)
	if err != nil || errTo != nil {
		return false
	}
	if real, err := filepath.EvalSymlinks(to); err == nil {
		to = real
	}
	allowed := []string{filepath.Dir(at)}
	if start, err := filepath.Abs(l.eval.start); err == nil && l.eval.start != "" {
		allowed = append(allowed, start)
	}
	for above := at; isWorkplace(above); above = filepath.Dir(above) {
		for _, mark := range []string{".git", ProjectFile} {
			if _, err := os.Stat(filepath.Join(above, mark)); err == nil {
				allowed = append(allowed, above)
			}
		}
	}
	return slices.ContainsFunc(allowed, func(dir string) bool {
		real, err := filepath.EvalSymlinks(dir)
		return err == nil && isWorkplace(dir) && isWithin(real, to)
	})
}

// errNoSkills is of directories that hold no skill.
var errNoSkills = errors.New("no skill")

// skillsIn is the skill that a directory is, or those that stand in it.
// One in it that cannot be read is left out with a warning at a place of the document.
func (l *loader) skillsIn(doc *strictyaml.Document, at strictyaml.Path, dir string) ([]Skill, error) {
	if _, err := os.Stat(filepath.Join(dir, frontmatter.SkillFile)); err == nil {
		skill, err := l.skill(dir)
		if err != nil {
			return nil, err
		}
		return []Skill{skill}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, emptyError{fmt.Sprintf("directory %s cannot be read: %s", show(dir), cause(err))}
	}
	var all []Skill
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		inner := filepath.Join(dir, entry.Name())
		if _, err := os.Stat(filepath.Join(inner, frontmatter.SkillFile)); err != nil {
			continue
		}
		skill, err := l.skill(inner)
		if err != nil {
			doc.Warnf(at, "%s: a skill is left out: %v", at, err)
			continue
		}
		all = append(all, skill)
	}
	if len(all) == 0 {
		return nil, emptyError{fmt.Sprintf("directory %s holds no skill: neither it nor a directory in it has a %s", show(dir), frontmatter.SkillFile)}
	}
	return all, nil
}

// emptyError says of a directory that it holds no skill.
type emptyError struct{ text string }

func (e emptyError) Error() string { return e.text }
func (e emptyError) Unwrap() error { return errNoSkills }

// skill reads the skill that a directory is.
func (l *loader) skill(dir string) (Skill, error) {
	if same(dir, l.eval.Dir()) {
		return Skill{}, errors.New("the eval's own directory is no skill, since the agent would find the eval in it; put the eval into a directory of its own")
	}
	return l.readSkill(dir, false)
}

// readSkill reads the skill that a directory is. Of one that was found, and that nobody
// named, what cannot be put into a container is left out, and so is what is the eval's.
func (l *loader) readSkill(dir string, found bool) (Skill, error) {
	content, err := readSkillFile(dir)
	if err != nil {
		return Skill{}, fmt.Errorf("%s %w", filepath.Join(dir, frontmatter.SkillFile), err)
	}
	front, err := readFrontMatter(content)
	if err != nil {
		return Skill{}, fmt.Errorf("%s %w", filepath.Join(dir, frontmatter.SkillFile), err)
	}
	files, err := l.skillFiles(dir, found)
	if err != nil {
		return Skill{}, fmt.Errorf("skill %s: %w", front.Name, err)
	}
	return Skill{Name: front.Name, Description: front.Description, Files: files, dir: dir}, nil
}

func readSkillFile(dir string) (string, error) {
	source, err := local(dir, frontmatter.SkillFile)
	if err != nil {
		return "", err
	}
	content, err := source.read(maxSkillFile)
	return string(content), err
}

// skillFiles lists the files of a skill: all that its directory holds but for what is
// hidden and, where the eval is in there, the eval's directory or, where that is the same,
// the eval's files.
func (l *loader) skillFiles(dir string, found bool) ([]WorkspaceFile, error) {
	shared := same(dir, l.eval.Dir())
	var files []WorkspaceFile
	err := filepath.WalkDir(dir, func(at string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("%s cannot be read: %s", at, cause(err))
		case at != dir && strings.HasPrefix(entry.Name(), "."), entry.IsDir() && !shared && same(at, l.eval.Dir()),
			shared && l.isOfEval(dir, at), found && entry.Name() == "node_modules":
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			return nil
		case len(files) == maxSkillFiles:
			return fmt.Errorf("it has more than %d files", maxSkillFiles)
		}
		name, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		source, err := local(dir, name)
		if err != nil && found {
			return nil
		}
		if err != nil {
			return fmt.Errorf("file %s %w", name, err)
		}
		files = append(files, WorkspaceFile{Path: path.Clean(filepath.ToSlash(name)), Source: &source})
		return nil
	})
	return files, err
}

// isOfEval reports whether a path in the eval's directory is the eval's: itself, its tasks
// and what its trials are made of.
func (l *loader) isOfEval(dir, at string) bool {
	rel, err := filepath.Rel(dir, at)
	if err != nil || rel == "." {
		return false
	}
	first, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
	ours := []string{filepath.Base(l.eval.Path), triggerTests, "fixtures", "graders", "results"}
	for _, pattern := range l.eval.Tasks {
		step, _, below := strings.Cut(strings.TrimPrefix(filepath.ToSlash(pattern), "./"), "/")
		if matched, err := path.Match(step, first); below && err == nil && matched || !below && same(at, filepath.Join(dir, first)) && err == nil && matched {
			return true
		}
	}
	return slices.Contains(ours, first)
}

// same says whether two paths are one directory.
func same(a, b string) bool {
	left, errLeft := os.Stat(a)
	right, errRight := os.Stat(b)
	return errLeft == nil && errRight == nil && os.SameFile(left, right)
}

// checkSkills holds that the skills which the eval requires are there in every task, and
// that those which it disables are there to be disabled.
func (l *loader) checkSkills(tasks []ResolvedTask) {
	if len(tasks) == 0 {
		return
	}
	c := l.eval.Config
	for i, name := range c.RequiredSkills {
		at := strictyaml.Path{"config", "required_skills", i}
		if slices.Contains(c.DisabledSkills, name) {
			l.doc.Problemf(at, "%s: skill %q is disabled by config.disabled_skills", at, name)
			continue
		}
		for _, task := range tasks {
			has := func(s Skill) bool { return s.Name == name }
			if !slices.ContainsFunc(task.Skills, has) {
				l.doc.Problemf(at, "%s: task %s has no skill %q%s", at, task.ID, name, l.suggestSkill(name))
				break
			}
		}
	}
	for i, name := range c.DisabledSkills {
		if at := (strictyaml.Path{"config", "disabled_skills", i}); !l.skillNames[name] {
			l.doc.Problemf(at, "%s: no skill is called %q%s", at, name, l.suggestSkill(name))
		}
	}
}

// suggestSkill is what may be meant by a name, with what goes before it.
func (l *loader) suggestSkill(name string) string {
	known := slices.Collect(maps.Keys(l.skillNames))
	if len(known) == 0 {
		return "; name a directory of skills in skill_directories"
	}
	return "; " + strictyaml.Suggest(name, known)
}

// maxSkillFile bounds a SKILL.md, in bytes.
const maxSkillFile = 1 << 20

// skillName is what names a skill: agents take it for a directory.
var skillName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// readFrontMatter reads what a SKILL.md says of itself, with which agents can work.
func readFrontMatter(content string) (frontmatter.Skill, error) {
	m, _, err := frontmatter.Read(content)
	switch {
	case err != nil:
		return m, err
	case !skillName.MatchString(m.Name):
		return m, fmt.Errorf("gives the name %q; a skill's name is up to 64 letters, digits, dots, hyphens and underscores, beginning with a letter or digit", m.Name)
	case strings.TrimSpace(m.Description) == "":
		return m, errors.New("has no description in its front matter, by which agents choose")
	}
	return m, nil
}
