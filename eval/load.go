package eval

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcpconfig"
)

// Options are what an eval's files do not say themselves.
type Options struct {
	// ContextDir holds the fixtures; empty means the directory fixtures beside
	// the eval.
	ContextDir string
	// Overlay is laid over the eval's config.mcp_servers, below what tasks lay over
	// them: a server of it takes the place of the eval's whole, not field by field,
	// since a client's file says all of a server, and fields of another would change
	// what it is. Nil is none.
	Overlay *mcpconfig.ClientFile
	// Executor, Model and JudgeModel take the place of the eval's; empty leaves them.
	Executor, Model, JudgeModel string
	// CheckScript says what is wrong with the steps of a task's script. Nil
	// leaves them unchecked but for being a list.
	CheckScript func(json.RawMessage) error
	// CheckModelScript says what is wrong with the script of a model, by its file's name
	// and content. Nil leaves scripts unread.
	CheckModelScript func(file string, data []byte) error
	// Start is the directory in which waza was started: paths in evals may be relative to
	// it, and its .waza.yaml says what they leave out. Empty is the current one.
	Start string
	// StrictKeys refuses every key that nothing knows.
	StrictKeys bool
	// NoSkills has nobody look for the skill that the eval is about.
	NoSkills bool
	// UpdateSnapshots takes snapshots of diff graders that are not there as empty, and
	// refuses those that [Eval.WriteSnapshot] would not write.
	UpdateSnapshots bool
	// Local reads the eval to run it on processes of this machine: what cannot be
	// without containers is refused.
	Local bool
}

// Load reads the eval at path and the task files it names, and resolves its
// enabled tasks in the order of its globs. What is wrong with the files comes all
// at once, as [strictyaml.Errors]; each is of class [strictyaml.ErrInvalid] or
// [strictyaml.ErrNotSupported].
func Load(path string, opts Options) (*Eval, []ResolvedTask, error) {
	doc, err := open(path)
	if err != nil {
		return nil, nil, err
	}
	if opts.StrictKeys {
		doc.Strict()
	}
	project, err := FindProject(cmp.Or(opts.Start, "."))
	if err != nil {
		return nil, nil, err
	}
	l := &loader{opts: opts, project: project, doc: doc, eval: &Eval{Path: path, Local: opts.Local}, ids: map[string]string{}, skillNames: map[string]bool{}}
	l.eval.start = startOf(opts.Start, l.eval.Dir())
	l.layRefs(doc, "graders")
	doc.Decode(l.eval)
	l.complete()
	l.override()
	l.checkEval()
	var tasks []ResolvedTask
	var files []string
	if tasks = l.dataset(); l.eval.TasksFrom == "" {
		files = l.taskFiles()
	}
	for _, file := range files {
		task, enabled, err := l.task(file)
		l.keep(err)
		if enabled {
			tasks = append(tasks, task)
		}
	}
	if len(files) > 0 && len(tasks) == 0 && len(l.errs) == 0 {
		doc.Problemf(strictyaml.Path{"tasks"}, "no task is enabled; remove enabled: false from one")
	}
	if len(tasks) > 0 {
		tasks = append(tasks, l.triggers()...)
	}
	l.checkScripts()
	l.graders.checkServers(l.servers)
	l.checkMeasures(tasks)
	l.checkPlanted(tasks)
	l.checkSkills(tasks)
	l.checkFound(tasks)
	if err := l.problems(); err != nil {
		return nil, nil, err
	}
	l.eval.Warnings = append(l.doc.Warnings(), l.warnings...)
	return l.eval, tasks, nil
}

// loader reads one eval.
type loader struct {
	opts    Options
	project *Project
	doc     *strictyaml.Document
	eval    *Eval
	graders graders           // the eval's own
	servers []string          // of the eval and of the tasks so far
	ids     map[string]string // folded task id → file
	errs    []error           // of task files
	written string            // the executor that the eval's file names
	scripts int               // tasks that have a script

	warnings []*strictyaml.Error // of task files

	taskContext string // the directory of fixtures of the task at hand; empty for the eval's

	evalSkills  []Skill
	foundSkills []Skill         // that no directory in the eval's files names
	looked      []string        // where skills were looked for
	skillNames  map[string]bool // of the eval and of the tasks so far
}

func (l *loader) keep(err error) {
	if err != nil {
		l.errs = append(l.errs, err)
	}
}

// problems is everything wrong with the eval, the overlay and then the tasks.
func (l *loader) problems() error {
	var all strictyaml.Errors
	own := []error{l.doc.Err()}
	if l.opts.Overlay != nil {
		own = append(own, l.opts.Overlay.Document().Err())
	}
	for _, err := range append(own, l.errs...) {
		var some strictyaml.Errors
		switch {
		case errors.As(err, &some):
			all = append(all, some...)
		case err != nil:
			return err
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// task reads and resolves one task file.
func (l *loader) task(path string) (resolved ResolvedTask, enabled bool, err error) {
	doc, err := l.open(path)
	if err != nil {
		return ResolvedTask{}, false, err
	}
	task := &Task{Path: path}
	l.layRefs(doc, "graders")
	l.layRefs(doc, "attack", "success")
	for i := 0; doc.Has("checkpoints", i); i++ {
		l.layRefs(doc, "checkpoints", i, "graders")
	}
	doc.Decode(task)
	defer func() { l.warnings = append(l.warnings, doc.Warnings()...) }()
	if !task.On() {
		return ResolvedTask{}, false, doc.Err()
	}
	r := resolver{loader: l, doc: doc, task: task}
	resolved = r.resolve()
	return resolved, true, doc.Err()
}

// open reads and parses the file at path, with the strictness that was chosen.
func (l *loader) open(path string) (*strictyaml.Document, error) {
	doc, err := open(path)
	if err == nil && l.opts.StrictKeys {
		doc.Strict()
	}
	return doc, err
}

// open reads and parses the file at path.
func open(path string) (*strictyaml.Document, error) {
	data, err := files.Read(path, strictyaml.MaxBytes)
	if err != nil {
		return nil, unreadable(path, err)
	}
	return strictyaml.Parse(path, data)
}

// unreadable is err without the path, which stands before it.
func unreadable(path string, err error) error {
	var inner *os.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return fmt.Errorf("%s: cannot be read: %w", path, err)
}

// flat is err on one line.
func flat(err error) string {
	return strings.Join(slices.DeleteFunc(strings.Split(err.Error(), "\n"), func(s string) bool { return s == "" }), "; ")
}

// CheckExecutor says what is wrong with the name of an executor.
func CheckExecutor(name string) error {
	field, _ := reflect.TypeFor[Config]().FieldByName("Executor")
	limits := strictyaml.LimitsOf(field)
	if slices.Contains(limits.Enum, name) {
		return nil
	}
	return fmt.Errorf("unknown executor %q; %s", name, strictyaml.Suggest(name, limits.Enum))
}

// override puts what the options name in the place of what the file says.
func (l *loader) override() {
	c := &l.eval.Config
	l.written = c.Executor
	if l.opts.Executor != "" {
		l.written = cmp.Or(l.written, l.opts.Executor) // an eval without one is written for any
		c.Executor = l.opts.Executor
	}
	if l.opts.JudgeModel != "" {
		c.JudgeModel = l.opts.JudgeModel
	}
	if l.opts.Model != "" {
		c.Model = l.opts.Model
	}
}

// overridden says whether another executor than the file's is to run the eval.
func (l *loader) overridden() bool { return l.eval.Config.Executor != l.written }

// checkScripts refuses to have scripts that the eval's own executor plays ignored by
// another, and an eval without scripts to be played.
func (l *loader) checkScripts() {
	at, executor := strictyaml.Path{"config", "executor"}, l.eval.Config.Executor
	switch {
	case !l.overridden():
	case executor == "script":
		l.doc.Problemf(at, "executor script needs a script in each task; this eval is written for executor %s", l.written)
	case l.scripts > 0:
		l.doc.Problemf(at, "the tasks have a script, which executor script alone plays; executor %s cannot run this eval", executor)
	}
}

// taskFiles are the files that the eval's globs match, each once.
func (l *loader) taskFiles() []string {
	var files []string
	switch {
	case len(l.eval.Tasks) > 0:
	case l.doc.Has("tasks"):
		l.doc.Problemf(strictyaml.Path{"tasks"}, "tasks must not be empty")
	default:
		l.doc.Problemf(strictyaml.Path{"tasks"}, `missing key "tasks"; add it, or tasks_from`)
	}
	for i, pattern := range l.eval.Tasks {
		at := strictyaml.Path{"tasks", i}
		switch {
		case pattern == "":
			l.doc.Problemf(at, "%s must not be empty", at)
			continue
		case filepath.IsAbs(pattern):
			l.doc.Problemf(at, "%s must be relative to the eval's directory", at)
			continue
		case strings.Contains(pattern, "**"):
			l.doc.Problemf(at, "%s holds **, which is not a glob here; name each directory", at)
			continue
		}
		matches, err := filepath.Glob(filepath.Join(quoteGlob(l.eval.Dir()), pattern))
		if err != nil {
			l.doc.Problemf(at, "%s is not a glob: %v", at, err)
			continue
		}
		if len(matches) == 0 {
			l.doc.Problemf(at, "%s matches no file in %s", at, show(l.eval.Dir()))
		}
		for _, match := range matches {
			if !slices.Contains(files, match) {
				files = append(files, match)
			}
		}
	}
	return files
}

// quoteGlob makes a pattern that matches dir and nothing else.
func quoteGlob(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// layRefs lays below each grader of the list at base the file that it refers to.
func (l *loader) layRefs(doc *strictyaml.Document, base ...any) {
	for i := 0; doc.Has(append(base, i)...); i++ {
		at := append(strictyaml.Path(base), i)
		if doc.Has(append(at, "ref")...) {
			l.layRef(doc, at)
		}
	}
}

// layRef lays a grader's file below it. The name of a grader that has none is the file's.
func (l *loader) layRef(doc *strictyaml.Document, at strictyaml.Path) {
	var name string
	in := append(at, "ref")
	if !doc.DecodeAt(&name, in...) || name == "" {
		return
	}
	source, err := findInside(l.eval.roots(), name)
	switch {
	case err != nil && strings.ContainsAny(name, "@:"):
		doc.Problemf(at, "%s: %q is a grader of a registry, which is not fetched, since an eval may not make the runner fetch code; put its file beside the eval and name that", in, name)
		return
	case err != nil:
		doc.Problemf(at, "%s: file %q %v", in, name, err)
		return
	}
	file := filepath.Join(source.Dir, source.Path)
	grader, err := l.openGrader(file)
	if err != nil {
		doc.Problemf(at, "%s: file %q cannot be read as a grader", in, name)
		l.keep(err)
		return
	}
	l.eval.TextFiles = append(l.eval.TextFiles, file)
	if !doc.Lay(grader, at, "ref") {
		doc.Problemf(at, "%s: with the files that graders refer to, the eval is too large", in)
	}
	doc.Add(strings.TrimSuffix(path.Base(name), path.Ext(name)), at, "name")
}

// openGrader reads and checks a grader's file, but for its config, of which a part may stand
// where it is referred to.
func (l *loader) openGrader(file string) (*strictyaml.Document, error) {
	doc, err := l.open(file)
	if err != nil {
		return nil, err
	}
	doc.Decode(new(Grader))
	if doc.Has("ref") {
		doc.Problemf(strictyaml.Path{"ref"}, "a grader's file cannot refer to another file; write the grader out here")
	}
	l.warnings = append(l.warnings, doc.Warnings()...)
	return doc, doc.Err()
}
