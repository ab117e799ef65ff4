package eval

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/frontmatter"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// Skill is a directory with a SKILL.md: instructions that an agent reads when needed.
type Skill struct {
	Name        string
	Description string
	Files       []WorkspaceFile // by path in the directory
	// Tools are the tools that a custom agent lists; nil for a custom agent without a list, and for a skill.
	Tools *[]string
	dir   string
	agent string // name of the file in dir, for a custom agent
}

// Is reports whether name is the name of the skill or of its directory.
func (s Skill) Is(name string) bool {
	if s.Name == name {
		return true
	}
	if s.agent != "" {
		return strings.TrimSuffix(s.agent, frontmatter.AgentSuffix) == name
	}
	abs, err := filepath.Abs(s.dir)
	return err == nil && filepath.Base(abs) == name
}

func (s Skill) size() (total int64) {
	for _, f := range s.Files {
		total += f.Size()
	}
	return total
}

// Body returns a skill's instructions without the front matter.
func (s Skill) Body() (string, error) {
	i := slices.IndexFunc(s.Files, func(f WorkspaceFile) bool { return f.Path == frontmatter.SkillFile })
	if i < 0 {
		return "", fmt.Errorf("skill %s has no %s", s.Name, frontmatter.SkillFile)
	}
	content, err := s.Files[i].Source.readText()
	if err != nil {
		return "", fmt.Errorf("skill %s: %s %w", s.Name, frontmatter.SkillFile, err)
	}
	_, body, err := frontmatter.Read(string(content))
	return strings.TrimSpace(body), err
}

// skillsOf reads the skills in directories that a document lists at a path.
func skillsOf(doc *strictyaml.Document, e *Eval, dirs []string, at strictyaml.Path) []Skill {
	var all []Skill
	for i, dir := range dirs {
		here := at.With(i)
		if dir == "" || filepath.IsAbs(dir) || strings.ContainsAny(dir, "\\\x00") {
			doc.Problemf(here, "%s must be a directory, relative to the eval's", here)
			continue
		}
		at := skillDirectory(e.roots(), filepath.FromSlash(dir))
		if !mayRead(e, at) {
			doc.Problemf(here, "%s: %s is outside of the eval's repository; start waza in a directory that holds both", here, show(at))
			continue
		}
		found, err := skillsIn(doc, e, here, at)
		_, empty := errors.AsType[noSkillError](err)
		switch {
		case empty && e.Skill != "": // the skill is looked for elsewhere too
			doc.Warnf(here, "%s: %v", here, err)
		case err != nil:
			doc.Problemf(here, "%s: %v", here, err)
		}
		all = append(all, found...)
	}
	return all
}

// skillDirectory returns a directory relative to the eval's, or, if it does not exist there, to the directory
// that waza was started in.
func skillDirectory(roots roots, dir string) string {
	for _, root := range roots {
		if info, err := os.Stat(filepath.Join(root, dir)); err == nil && info.IsDir() {
			return filepath.Join(root, dir)
		}
	}
	return filepath.Join(roots[0], dir)
}

// mayRead reports whether skills may be read in a directory. It must be below the parent of the eval's
// directory, the directory that waza was started in, or the eval's repository or project.
func mayRead(e *Eval, dir string) bool {
	return isBelowAny(dir, append(placesOf(e, ".git", projectFile), filepath.Join(e.Dir(), "..")))
}

// IsOutside reports whether a path is outside of the eval's directory, the directory that waza was started
// in, the eval's repository, and the directory of fixtures named on the command line.
func IsOutside(e *Eval, path string) bool {
	places := append(placesOf(e, ".git"), e.Dir())
	if e.context != "" {
		places = append(places, e.context)
	}
	return !isBelowAny(path, places)
}

// placesOf returns the directory that waza was started in, if the eval is below it, and those directories
// around the eval that contain one of marks.
func placesOf(e *Eval, marks ...string) (places []string) {
	if e.start != "" {
		places = append(places, e.start)
	}
	at, err := filepath.Abs(e.Dir())
	for above := at; err == nil && isWorkplace(above); above = filepath.Dir(above) {
		for _, mark := range marks {
			if exists(filepath.Join(above, mark)) {
				places = append(places, above)
			}
		}
	}
	return places
}

// isBelowAny reports whether a path, with links resolved, is below one of dirs. It ignores dirs that contain
// everything, such as home directories.
func isBelowAny(path string, dirs []string) bool {
	to, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	if real, err := filepath.EvalSymlinks(to); err == nil {
		to = real
	}
	return slices.ContainsFunc(dirs, func(dir string) bool {
		at, errAt := filepath.Abs(dir)
		real, err := filepath.EvalSymlinks(at)
		return errAt == nil && err == nil && isWorkplace(at) && isWithin(real, to)
	})
}

// noSkillError is the error of a directory without a skill.
type noSkillError string

func (e noSkillError) Error() string { return string(e) }

// skillsIn returns the skill in a directory, or the skills in its subdirectories. Of the latter, those that
// cannot be read are skipped with a warning.
func skillsIn(doc *strictyaml.Document, e *Eval, at strictyaml.Path, dir string) ([]Skill, error) {
	if hasSkillFile(dir) {
		skill, err := readNamed(e, dir)
		if err != nil {
			return nil, err
		}
		return []Skill{skill}, nil
	}
	inner, err := skillsBelow(dir)
	if err != nil {
		return nil, noSkillError(fmt.Sprintf("directory %s cannot be read: %s", show(dir), cause(err)))
	}
	var all []Skill
	for _, dir := range inner {
		skill, err := readNamed(e, dir)
		if err != nil {
			doc.Warnf(at, "%s: a skill is left out: %v", at, err)
			continue
		}
		all = append(all, skill)
	}
	agent, err := agentIn(e, append([]string{dir}, below(dir)...))
	if err != nil {
		return nil, err
	}
	if all = append(all, agent...); len(all) == 0 {
		return nil, noSkillError(fmt.Sprintf("directory %s contains no skill: neither it nor a directory in it has a %s", show(dir), frontmatter.SkillFile))
	}
	return all, nil
}

// agentIn returns the custom agent in one of dirs that the eval is about: the one that skill names or, if
// skill is empty, the first. As in upstream waza, it ignores agents next to a SKILL.md.
func agentIn(e *Eval, dirs []string) ([]Skill, error) {
	for _, dir := range dirs {
		entries, _ := os.ReadDir(dir) // no entries if the directory cannot be read
		for _, entry := range entries {
			if hasSkillFile(dir) || entry.IsDir() || !strings.HasSuffix(entry.Name(), frontmatter.AgentSuffix) {
				continue
			}
			agent, err := readAgent(dir, entry.Name())
			if err != nil {
				return nil, fmt.Errorf("%s %w", show(filepath.Join(dir, entry.Name())), err)
			}
			if e.Skill == "" || agent.Is(e.Skill) {
				return []Skill{agent}, nil
			}
		}
	}
	return nil, nil
}

// readAgent reads a custom agent. Agents get it in the form of a skill.
func readAgent(dir, file string) (Skill, error) {
	source, err := local(dir, file)
	if err != nil {
		return Skill{}, err
	}
	content, err := source.readText()
	if err != nil {
		return Skill{}, err
	}
	front, err := frontmatter.ReadAgent(string(content))
	if err != nil {
		return Skill{}, err
	}
	name := cmp.Or(strings.TrimSpace(front.Name), strings.TrimSuffix(file, frontmatter.AgentSuffix))
	if !skillName.MatchString(name) {
		return Skill{}, fmt.Errorf("gives the name %q; %s", name, aboutNames)
	}
	return Skill{
		Name: name, Description: front.Description, Tools: front.Tools, dir: dir, agent: file,
		Files: []WorkspaceFile{{Path: frontmatter.SkillFile, Source: &source}},
	}, nil
}

// below returns the subdirectories of dir, except hidden ones.
func below(dir string) (dirs []string) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") {
			dirs = append(dirs, filepath.Join(dir, entry.Name()))
		}
	}
	return dirs
}

// skillsBelow returns the subdirectories of dir that are skills, except hidden ones.
func skillsBelow(dir string) (found []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if inner := filepath.Join(dir, entry.Name()); !strings.HasPrefix(entry.Name(), ".") && hasSkillFile(inner) {
			found = append(found, inner)
		}
	}
	return found, err
}

func hasSkillFile(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, frontmatter.SkillFile))
	return err == nil && !info.IsDir()
}

// readNamed reads a skill that the eval's files name.
func readNamed(e *Eval, dir string) (Skill, error) {
	if same(dir, e.Dir()) {
		return Skill{}, errors.New("the eval's own directory cannot be a skill, since the agent would find the eval in it; move the eval to another directory")
	}
	return readSkill(e, dir, false)
}

// readSkill reads the skill in a directory. If the skill was found rather than named, files that cannot be
// copied into a container are skipped.
func readSkill(e *Eval, dir string, found bool) (Skill, error) {
	content, err := readSkillFile(dir)
	if err != nil {
		return Skill{}, fmt.Errorf("%s %w", filepath.Join(dir, frontmatter.SkillFile), err)
	}
	front, err := readFrontMatter(content)
	if err != nil {
		return Skill{}, fmt.Errorf("%s %w", filepath.Join(dir, frontmatter.SkillFile), err)
	}
	files, err := skillFiles(e, dir, found)
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
	content, err := source.readText()
	return string(content), err
}

// skillFiles lists the files of a skill, except hidden ones and the eval's. If the skill was
// found rather than named, unreadable files are skipped.
func skillFiles(e *Eval, dir string, found bool) ([]WorkspaceFile, error) {
	shared := same(dir, e.Dir())
	names, err := filesBelow(dir, func(at string, entry fs.DirEntry) bool {
		return strings.HasPrefix(entry.Name(), ".") || entry.IsDir() && !shared && same(at, e.Dir()) ||
			shared && owns(e, dir, at) || found && entry.Name() == "node_modules"
	})
	if err != nil {
		return nil, err
	}
	var files []WorkspaceFile
	for _, name := range names {
		source, err := local(dir, filepath.FromSlash(name))
		if err != nil && found {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("file %s %w", name, err)
		}
		files = append(files, WorkspaceFile{Path: name, Source: &source})
	}
	return files, nil
}

// owns reports whether a path in the eval's directory belongs to the eval: its file, its tasks
// and the files of its trials.
func owns(e *Eval, dir, at string) bool {
	rel, err := filepath.Rel(dir, at)
	if err != nil {
		return false
	}
	first, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
	ours := []string{filepath.Base(e.Path), triggerTests, "fixtures", "graders", "results"}
	for _, pattern := range e.Tasks {
		step, _, below := strings.Cut(strings.TrimPrefix(filepath.ToSlash(pattern), "./"), "/")
		if matched, err := path.Match(step, first); below && err == nil && matched || !below && same(at, filepath.Join(dir, first)) && err == nil && matched {
			return true
		}
	}
	return slices.Contains(ours, first)
}

// skillName matches valid names of skills, which agents use as names of directories.
var skillName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

const aboutNames = "a skill's name is up to 64 letters, digits, dots, hyphens and underscores, beginning with a letter or digit"

// readFrontMatter reads the front matter of a SKILL.md, and checks that agents can use the skill.
func readFrontMatter(content string) (frontmatter.Skill, error) {
	m, _, err := frontmatter.Read(content)
	switch {
	case err != nil:
		return m, err
	case !skillName.MatchString(m.Name):
		return m, fmt.Errorf("gives the name %q; %s", m.Name, aboutNames)
	case strings.TrimSpace(m.Description) == "":
		return m, errors.New("has no description in its front matter, by which agents choose")
	}
	return m, nil
}
