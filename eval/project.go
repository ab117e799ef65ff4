package eval

import (
	"cmp"
	"os"
	"path/filepath"

	"github.com/waza-isolate/waza/internal/strictyaml"
)

// projectFile is the file with a project's defaults.
const projectFile = ".waza.yaml"

// Project is a .waza.yaml: the defaults of evals next to and below it. It ignores the keys of upstream waza's
// other commands.
type Project struct {
	_ struct{} `unknown:"warn"`

	Paths    ProjectPaths    `json:"paths,omitzero"`
	Files    ProjectFiles    `json:"files,omitzero"`
	Defaults ProjectDefaults `json:"defaults,omitzero"`

	Dir  string `json:"-"` // directory of the file
	Path string `json:"-"` // empty if there is no file
}

// ProjectPaths holds paths of a project's directories, relative to the project.
type ProjectPaths struct {
	_ struct{} `unknown:"warn"`

	Skills string `json:"skills,omitempty"`
	Evals  string `json:"evals,omitempty"`
}

// ProjectFiles holds names of a project's files.
type ProjectFiles struct {
	_ struct{} `unknown:"warn"`

	EvalFile string `json:"evalFile,omitempty"`
}

// ProjectDefaults are the defaults of the project's evals.
type ProjectDefaults struct {
	_ struct{} `unknown:"warn"`

	Engine     string  `json:"engine,omitempty"`
	Model      string  `json:"model,omitempty"`
	JudgeModel string  `json:"judgeModel,omitempty"`
	Timeout    int     `json:"timeout,omitempty" min:"1" max:"604800" zero:"unset"`
	Parallel   *bool   `json:"parallel,omitempty"`
	Workers    Workers `json:"workers,omitempty"`
	Isolate    *bool   `json:"isolate,omitempty"`
}

// SkillsDir returns the directory of the project's skills, relative to it.
func (p *Project) SkillsDir() string { return cmp.Or(p.Paths.Skills, "skills") }

// EvalsDir returns the directory of its evals, relative to it.
func (p *Project) EvalsDir() string { return cmp.Or(p.Paths.Evals, "evals") }

// EvalFile returns the file name of its evals.
func (p *Project) EvalFile() string { return cmp.Or(p.Files.EvalFile, "eval.yaml") }

// FindProject reads the .waza.yaml in start or the nearest parent directory that has one, up to the root of a
// git repository, but not in a home directory. If there is none, it returns the defaults for start.
func FindProject(start string) (*Project, error) {
	dir, err := filepath.Abs(start)
	if err != nil {
		return nil, err
	}
	for at := dir; isWorkplace(at); at = filepath.Dir(at) {
		path := filepath.Join(at, projectFile)
		if _, err := os.Stat(path); err == nil {
			return readProject(at, path)
		}
		if _, err := os.Stat(filepath.Join(at, ".git")); err == nil {
			break
		}
	}
	return &Project{Dir: dir}, nil
}

// ProjectOf returns the project at start, which defaults to the current directory. If start has no
// .waza.yaml, it returns the project of the eval's directory.
func ProjectOf(start, evalDir string) (*Project, error) {
	project, err := FindProject(cmp.Or(start, "."))
	if err != nil || project.Path != "" {
		return project, err
	}
	if own, err := FindProject(evalDir); err != nil || own.Path != "" {
		return own, err
	}
	return project, nil
}

func readProject(dir, path string) (*Project, error) {
	doc, err := open(path)
	if err != nil {
		return nil, err
	}
	if doc.Has("isolate") {
		doc.KeyProblemf(strictyaml.Path{"isolate"}, "isolate is one of the defaults of evals; write it under defaults")
	}
	doc.IgnoreUnknown("other commands of waza may know it")
	p := &Project{}
	doc.Decode(p)
	p.Dir, p.Path = dir, path
	for key, value := range map[string]string{"skills": p.Paths.Skills, "evals": p.Paths.Evals} {
		if value != "" && !filepath.IsLocal(filepath.Clean(value)) {
			doc.Problemf(strictyaml.Path{"paths", key}, "paths.%s must be a directory below %s", key, projectFile)
		}
	}
	if p.Files.EvalFile != "" && filepath.Base(p.Files.EvalFile) != p.Files.EvalFile {
		doc.Problemf(strictyaml.Path{"files", "evalFile"}, "files.evalFile must be the name of a file")
	}
	if p.Defaults.Engine != "" {
		if err := CheckExecutor(p.Defaults.Engine); err != nil {
			doc.Problemf(strictyaml.Path{"defaults", "engine"}, "defaults.engine: %v", err)
		}
	}
	return p, doc.Err()
}

// isWorkplace reports whether a directory can be a project. Home directories and the root cannot, since they
// contain everything. Relative paths of an eval are looked up only in such directories.
func isWorkplace(dir string) bool {
	home, _ := os.UserHomeDir()
	return dir != filepath.Dir(dir) && dir != home
}

// startOf returns start if the eval's directory is below it, and otherwise "". As in upstream waza, paths of
// an eval may be relative to the directory in which waza was started.
func startOf(start, evalDir string) string {
	start = cmp.Or(start, ".")
	from, errStart := filepath.Abs(start)
	to, errEval := filepath.Abs(evalDir)
	if errStart != nil || errEval != nil || !isWorkplace(from) || !isWithin(from, to) {
		return ""
	}
	return start
}

// isWithin reports whether path is dir or below it. Both must be absolute.
func isWithin(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// FromHere returns path relative to the current directory, if it is below that.
func FromHere(path string) string {
	here, err := filepath.Abs(".")
	abs, errPath := filepath.Abs(path)
	if rel, errRel := filepath.Rel(here, abs); err == nil && errPath == nil && errRel == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}
