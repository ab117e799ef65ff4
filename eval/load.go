package eval

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/wholefile"
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
	data, err := wholefile.Read(path, strictyaml.MaxBytes)
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
