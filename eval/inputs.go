package eval

import (
	"cmp"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// readInputs reads the prompt of a task, and returns its instructions.
func (r resolver) readInputs() (instructions []string) {
	r.promptFile()
	in := r.task.Inputs
	if in.Responder != nil && in.FollowUps != nil {
		r.doc.Problemf(strictyaml.Path{"inputs", "responder"}, "inputs has follow_up_prompts and a responder; give one of them")
	}
	checkInside(r.doc, strictyaml.Path{"inputs", "workdir"}, in.Workdir, "a directory in the workspace")
	for i, name := range r.eval.Config.InstructionFiles {
		instructions = append(instructions, r.instructions(name, r.loader.doc, strictyaml.Path{"config", "instruction_files", i}))
	}
	for i, name := range r.task.InstructionFiles {
		instructions = append(instructions, r.instructions(name, r.doc, strictyaml.Path{"instruction_files", i}))
	}
	r.fill()
	if strings.ContainsRune(r.task.Inputs.Prompt, 0) {
		r.doc.Problemf(strictyaml.Path{"inputs", "prompt"}, "inputs.prompt must not hold a NUL character")
	}
	checkEnv(r.doc, strictyaml.Path{"inputs", "environment"}, r.task.Inputs.Environment)
	return instructions
}

// contextDir returns the directory of the task's fixtures: its own, which is in the eval's directory or in
// the directory that waza was started in, or else the eval's.
func (r resolver) contextDir() string {
	dir, at := r.task.ContextDir, strictyaml.Path{"context_dir"}
	switch {
	case dir == "":
	case !files.IsInside(dir):
		r.doc.Problemf(at, "context_dir must be a directory in the eval's, or in the one that waza is started in: a relative path that does not lead out")
	default:
		for _, root := range r.eval.roots() {
			if info, err := statIn(root, dir); err == nil && info.IsDir() {
				return filepath.Join(root, filepath.FromSlash(dir))
			}
		}
		r.doc.Problemf(at, "context_dir: the directory %s is neither in %s nor in the one that waza is started in", dir, show(r.eval.Dir()))
	}
	return cmp.Or(r.opts.ContextDir, filepath.Join(r.eval.Dir(), "fixtures"))
}

// statIn returns the info of a file below a directory, by its slash-separated path. It does not follow links
// that lead out of the directory.
func statIn(dir, name string) (fs.FileInfo, error) {
	root, err := files.Root(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	return root.Stat(filepath.FromSlash(path.Clean(name)))
}

// promptFile reads the prompt from the file that the task names.
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
		content, err := readBelow(filepath.Dir(r.task.Path), name)
		if err != nil {
			r.doc.Problemf(at, "prompt_file %q %v", name, err)
			return
		}
		r.task.Inputs.Prompt = string(content)
		r.eval.TextFiles = append(r.eval.TextFiles, filepath.Join(filepath.Dir(r.task.Path), filepath.FromSlash(name)))
	}
}

// instructions reads a file of instructions from the fixtures.
func (r resolver) instructions(name string, doc *strictyaml.Document, at strictyaml.Path) string {
	content, err := readBelow(r.fixtures, name)
	if err != nil {
		doc.Problemf(at, "%s: file %q %v", at, name, err)
		return ""
	}
	r.eval.TextFiles = append(r.eval.TextFiles, filepath.Join(r.fixtures, filepath.FromSlash(name)))
	return strings.TrimSpace(string(content))
}

// fill expands the templates in the prompts of an eval with inputs.
func (r resolver) fill() {
	vars := r.task.vars
	if vars == nil {
		vars = r.eval.Inputs
	}
	if vars == nil {
		return
	}
	values := promptValues{Vars: vars, TaskName: cmp.Or(r.task.Name, r.task.ID)}
	filled := func(prompt string) string {
		text, err := values.fill(prompt)
		if err != nil {
			r.doc.Problemf(strictyaml.Path{"inputs", "prompt"}, "the prompt has %v", err)
		}
		return text
	}
	in := &r.task.Inputs
	in.Prompt = filled(in.Prompt)
	for i, prompt := range in.FollowUps {
		in.FollowUps[i] = filled(prompt)
	}
}
