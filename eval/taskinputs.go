package eval

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/frontmatter"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// MaxPromptFile bounds files of prompts and of instructions.
const MaxPromptFile = 1 << 20

// readInputs reads what a task's inputs name beside its files: the directory of fixtures, the
// prompt, the fixture of its context and instructions. It comes before all else of the task.
func (r resolver) readInputs() (instructions []string, fixture []WorkspaceFile) {
	r.loader.taskContext = r.contextDir()
	r.promptFile()
	in := r.task.Inputs
	if in.Responder != nil && in.FollowUps != nil {
		r.doc.Problemf(strictyaml.Path{"inputs", "responder"}, "inputs has follow_up_prompts and a responder; give one of them")
	}
	if in.Workdir != "" && !isInside(in.Workdir) {
		r.doc.Problemf(strictyaml.Path{"inputs", "workdir"}, "inputs.workdir must be a directory in the workspace, relative and without leading out")
	}
	for i, name := range r.loader.eval.Config.InstructionFiles {
		instructions = append(instructions, r.instructions(name, r.loader.doc, strictyaml.Path{"config", "instruction_files", i}))
	}
	for i, name := range r.task.InstructionFiles {
		instructions = append(instructions, r.instructions(name, r.doc, strictyaml.Path{"instruction_files", i}))
	}
	return instructions, r.fixture()
}

// contextDir is the task's own directory of fixtures; empty for the eval's. It is in the
// eval's directory, or below the one in which waza was started.
func (r resolver) contextDir() string {
	dir, at := r.task.ContextDir, strictyaml.Path{"context_dir"}
	if dir == "" {
		return ""
	}
	if !isInside(dir) {
		r.doc.Problemf(at, "context_dir must be a directory in the eval's, or in the one that waza is started in: a relative path that does not lead out")
		return ""
	}
	for _, root := range r.loader.eval.roots() {
		if info, err := statIn(root, dir); err == nil && info.IsDir() {
			return filepath.Join(root, filepath.FromSlash(dir))
		}
	}
	r.doc.Problemf(at, "context_dir: there is no directory %s in %s, nor in the one that waza is started in", dir, show(r.loader.eval.Dir()))
	return ""
}

// statIn looks at what a slash-separated path names below a directory. A link that leads out
// of it is not followed.
func statIn(dir, name string) (fs.FileInfo, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	return root.Stat(filepath.FromSlash(path.Clean(name)))
}

// promptFile has the prompt of a file in the place of one in the task.
func (r resolver) promptFile() {
	name, at := r.task.Inputs.PromptFile, strictyaml.Path{"inputs", "prompt_file"}
	switch {
	case name == "":
		if !r.doc.Has("inputs", "prompt") && !r.doc.Has(at...) && r.doc.Has("inputs") {
			r.doc.Problemf(strictyaml.Path{"inputs", "prompt"}, `missing key "prompt"; add inputs.prompt, which may be empty, or inputs.prompt_file`)
		}
	case r.doc.Has("inputs", "prompt"):
		r.doc.Problemf(at, "inputs has a prompt and a prompt_file; give one of them")
	default:
		content, err := readBounded(filepath.Dir(r.task.Path), name)
		if err != nil {
			r.doc.Problemf(at, "prompt_file %q %v", name, err)
			return
		}
		r.task.Inputs.Prompt = string(content)
		r.loader.eval.TextFiles = append(r.loader.eval.TextFiles, filepath.Join(filepath.Dir(r.task.Path), filepath.FromSlash(name)))
	}
}

// readBounded reads a text that is in dir.
func readBounded(dir, name string) ([]byte, error) {
	if !isInside(name) {
		return nil, errors.New("must be a relative path that does not lead out of " + show(dir))
	}
	source, err := local(dir, filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	return source.read(MaxPromptFile)
}

// instructions reads a file of instructions, from among the fixtures.
func (r resolver) instructions(name string, doc *strictyaml.Document, at strictyaml.Path) string {
	content, err := readBounded(r.loader.fixtures(), name)
	if err != nil {
		doc.Problemf(at, "%s: file %q %v", at, name, err)
		return ""
	}
	r.loader.eval.TextFiles = append(r.loader.eval.TextFiles, filepath.Join(r.loader.fixtures(), filepath.FromSlash(name)))
	return strings.TrimSpace(string(content))
}

// fixture is the files of inputs.context.fixture: a file under its own name, or what a
// directory holds.
func (r resolver) fixture() []WorkspaceFile {
	name, ok := r.task.Inputs.Context["fixture"].(string)
	if !ok || name == "" {
		return nil
	}
	at := strictyaml.Path{"inputs", "context", "fixture"}
	if !isInside(name) {
		r.doc.Problemf(at, "inputs.context.fixture must be a relative path that does not lead out")
		return nil
	}
	for _, root := range []string{r.loader.eval.Dir(), r.loader.fixtures()} {
		info, err := statIn(root, name)
		if err != nil {
			continue
		}
		files, err := filesBelow(root, path.Clean(name), info)
		if err != nil {
			r.doc.Problemf(at, "inputs.context.fixture: %v", err)
		}
		return files
	}
	r.doc.Problemf(at, "inputs.context.fixture: there is no %s in %s, nor among its fixtures", name, show(r.loader.eval.Dir()))
	return nil
}

// filesBelow is a regular file, or all files of a directory by their paths in it.
func filesBelow(root, name string, info fs.FileInfo) ([]WorkspaceFile, error) {
	if !info.IsDir() {
		source, err := local(root, filepath.FromSlash(name))
		if err != nil {
			return nil, fmt.Errorf("file %s %w", name, err)
		}
		return []WorkspaceFile{{Path: path.Base(name), Source: &source}}, nil
	}
	dir := filepath.Join(root, filepath.FromSlash(name))
	var files []WorkspaceFile
	err := filepath.WalkDir(dir, func(at string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("%s cannot be read: %s", at, cause(err))
		case entry.IsDir() && entry.Name() == ".git":
			return fs.SkipDir
		case entry.IsDir():
			return nil
		case len(files) == maxSkillFiles:
			return fmt.Errorf("%s has more than %d files", name, maxSkillFiles)
		}
		rel, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		source, err := local(dir, rel)
		if err != nil {
			return fmt.Errorf("file %s %w", at, err)
		}
		files = append(files, WorkspaceFile{Path: filepath.ToSlash(rel), Source: &source})
		return nil
	})
	return files, err
}

// Body is a skill's instructions, without the front matter.
func (s Skill) Body() (string, error) {
	i := slices.IndexFunc(s.Files, func(f WorkspaceFile) bool { return f.Path == frontmatter.SkillFile })
	if i < 0 {
		return "", fmt.Errorf("skill %s has no %s", s.Name, frontmatter.SkillFile)
	}
	content, err := s.Files[i].Source.read(maxSkillFile)
	if err != nil {
		return "", fmt.Errorf("skill %s: %s %w", s.Name, frontmatter.SkillFile, err)
	}
	_, body, err := frontmatter.Read(string(content))
	return strings.TrimSpace(body), err
}

// fill puts values in the place of templates in the prompts of an eval that has any.
func (r resolver) fill() {
	if r.task.vars == nil && r.loader.eval.Inputs == nil {
		return
	}
	vars := r.task.vars
	if vars == nil {
		vars = r.loader.eval.Inputs
	}
	in := &r.task.Inputs
	in.Prompt = r.filled(in.Prompt, vars)
	for i, prompt := range in.FollowUps {
		in.FollowUps[i] = r.filled(prompt, vars)
	}
}

func (r resolver) filled(prompt string, vars map[string]string) string {
	return template.ReplaceAllStringFunc(prompt, func(found string) string {
		parts := template.FindStringSubmatch(found)
		value, ok := vars[parts[2]]
		switch {
		case parts[2] != "" && ok:
			return value
		case parts[1] == "TaskName":
			return or(r.task.Name, r.task.ID)
		case parts[1] == "Iteration" || parts[1] == "Attempt":
			return "0"
		case parts[2] != "":
			r.doc.Problemf(strictyaml.Path{"inputs", "prompt"}, "the prompt has %s, and inputs has no %q; %s", found, parts[2], strictyaml.Suggest(parts[2], slices.Sorted(maps.Keys(vars))))
		default:
			r.doc.Problemf(strictyaml.Path{"inputs", "prompt"}, "the prompt has %s, which is another in each run or unknown; .Vars.NAME, .TaskName, .Iteration and .Attempt can stand there", found)
		}
		return found
	})
}
