package eval

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcpconfig"
)

// loader reads the files of an eval, and holds the data shared by its tasks.
type loader struct {
	eval *Eval
	opts Options
	doc  *strictyaml.Document   // of the eval
	docs []*strictyaml.Document // of all files that were parsed, the eval's first
	errs []error                // errors of other files, and of files that cannot be read

	written string                      // the executor in the eval's file
	graders []evidence.GraderSpec       // the eval's own graders
	servers map[string]mcpconfig.Server // the eval's own servers; shared by all tasks that declare none
	skills  foundSkills
	faults  faults // faults for tasks that declare none
	newer   string // why unknown keys of upstream's mappings are ignored; empty if they are not

	// The following grow with each task.
	skillNames map[string]bool
	ids        map[string]string // folded id → file
}

// open reads and parses the file at path. Its problems and warnings are added to the eval's.
func (l *loader) open(path string) (*strictyaml.Document, error) {
	l.eval.files = append(l.eval.files, path)
	doc, err := open(path)
	if err != nil {
		return nil, err
	}
	doc.IgnoreUnknown(l.newer)
	l.docs = append(l.docs, doc)
	return doc, nil
}

// fail records an error of a file that could not be opened.
func (l *loader) fail(err error) { l.errs = append(l.errs, err) }

// othersAreFine reports whether no file other than the eval's own has problems.
func (l *loader) othersAreFine() bool {
	return len(l.errs) == 0 && !slices.ContainsFunc(l.docs[1:], func(d *strictyaml.Document) bool { return d.Err() != nil })
}

// err returns all problems: those of the eval, of the overlay, and then of the other files.
func (l *loader) err() error {
	errs := []error{l.doc.Err()}
	if l.opts.Overlay != nil {
		errs = append(errs, l.opts.Overlay.Document().Err())
	}
	for _, doc := range l.docs[1:] {
		errs = append(errs, doc.Err())
	}
	var all strictyaml.Errors
	for _, err := range append(errs, l.errs...) {
		some, ok := errors.AsType[strictyaml.Errors](err)
		if err != nil && !ok {
			return err
		}
		all = append(all, some...)
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// open reads and parses the file at path.
func open(path string) (*strictyaml.Document, error) {
	data, err := files.Read(path, strictyaml.MaxBytes)
	if err != nil {
		return nil, unreadable(path, err)
	}
	return strictyaml.Parse(path, data)
}

// UnreadableError is the error of a file that cannot be read.
type UnreadableError struct {
	Path string
	Err  error
}

func (e *UnreadableError) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *UnreadableError) Unwrap() error { return e.Err }

// unreadable returns an UnreadableError for the file at path.
func unreadable(path string, err error) error {
	if err = files.Cause(err); errors.Is(err, os.ErrNotExist) {
		instead := "correct the path"
		dir, ext := filepath.Dir(path), filepath.Ext(path)
		entries, _ := os.ReadDir(dir)
		var stems []string
		for _, entry := range entries {
			if stem, same := strings.CutSuffix(entry.Name(), ext); same {
				stems = append(stems, stem)
			}
		}
		if near := strictyaml.Nearest(strings.TrimSuffix(filepath.Base(path), ext), stems); near != "" {
			instead = fmt.Sprintf("did you mean %s?", show(filepath.Join(dir, near+ext)))
		}
		return &UnreadableError{path, fmt.Errorf("%w; %s", err, instead)}
	}
	return &UnreadableError{path, fmt.Errorf("cannot be read: %w", err)}
}

// flat returns the message of err as a single line.
func flat(err error) string {
	return strings.Join(slices.DeleteFunc(strings.Split(err.Error(), "\n"), func(s string) bool { return s == "" }), "; ")
}

// readTasks yields the tasks of the eval, from the rows of tasks_from or from files. It holds one document at
// a time in memory.
func (l *loader) readTasks() iter.Seq[*Task] {
	return func(yield func(*Task) bool) {
		if l.rows(yield); l.eval.TasksFrom != "" {
			return
		}
		for _, path := range taskPaths(l.doc, l.eval) {
			before := len(l.docs)
			doc, err := l.open(path)
			if err != nil {
				l.fail(err)
				continue
			}
			if !doc.Has("id") && doc.Has("tasks") {
				doc.Problemf(strictyaml.Path{"tasks"}, "this is an eval, not a task; narrow the patterns under tasks of %s", show(l.eval.Path))
				continue
			}
			l.layRefs(doc, "graders")
			l.layRefs(doc, "attack", "success")
			for i := 0; doc.Has("checkpoints", i); i++ {
				l.layRefs(doc, "checkpoints", i, "graders")
			}
			task := &Task{Path: path, doc: doc}
			doc.Decode(task)
			task.line = doc.Key("id").Line
			if !yield(task) {
				return
			}
			for _, doc := range l.docs[before:] {
				doc.Forget()
			}
		}
	}
}

// taskPaths returns the paths that match the eval's globs, without duplicates.
func taskPaths(doc *strictyaml.Document, e *Eval) []string {
	var files []string
	switch {
	case len(e.Tasks) > 0:
	case doc.Has("tasks"):
		doc.Problemf(strictyaml.Path{"tasks"}, "tasks must not be empty")
	default:
		doc.Problemf(strictyaml.Path{"tasks"}, `missing key "tasks"; add it, or tasks_from`)
	}
	for i, pattern := range e.Tasks {
		at := strictyaml.Path{"tasks", i}
		switch {
		case pattern == "":
			doc.Problemf(at, "%s must not be empty", at)
			continue
		case filepath.IsAbs(pattern):
			doc.Problemf(at, "%s must be relative to the eval's directory", at)
			continue
		case strings.Contains(pattern, "**"):
			doc.Problemf(at, "%s holds **, which is not a glob here; name each directory", at)
			continue
		}
		matches, err := filepath.Glob(filepath.Join(text.GlobWord(e.Dir()), pattern))
		if err != nil {
			doc.Problemf(at, "%s is not a glob: %v", at, err)
			continue
		}
		if len(matches) == 0 {
			doc.Problemf(at, "%s matches no file in %s; correct the pattern, which is relative to the eval", at, show(e.Dir()))
		}
		for _, match := range matches {
			if !slices.Contains(files, match) {
				files = append(files, match)
			}
		}
	}
	return files
}

// declare returns the eval's servers, overlaid with those that a file declares.
func (l *loader) declare(doc *strictyaml.Document, declared map[string]*mcpconfig.Server) map[string]mcpconfig.Server {
	if len(declared) == 0 && l.servers != nil {
		return l.servers
	}
	if doc != l.doc {
		known := []error{l.doc.Err()}
		if l.opts.Overlay != nil {
			known = append(known, l.opts.Overlay.Document().Err())
		}
		doc.Ignore(errors.Join(known...))
		defer doc.Ignore(nil)
	}
	return servers{doc, under(doc, "mcp_servers"), l.eval}.merge(declared)
}

// layRefs merges the files that graders of the list at base refer to into these graders.
func (l *loader) layRefs(doc *strictyaml.Document, base ...any) {
	for i := 0; doc.Has(strictyaml.Path(base).With(i)...); i++ {
		at := strictyaml.Path(base).With(i)
		if doc.Has(at.With("ref")...) {
			l.layRef(doc, at)
		}
	}
}

// layRef merges the file that a grader refers to into the grader. A grader without a name is named after the
// file.
func (l *loader) layRef(doc *strictyaml.Document, at strictyaml.Path) {
	var name string
	ref := at.With("ref")
	if !doc.DecodeAt(&name, ref...) || name == "" {
		return
	}
	source, err := l.eval.roots().inside(name)
	switch {
	case err != nil && strings.ContainsAny(name, "@:"):
		doc.Problemf(at, "%s: %q is a grader in a registry, which is not fetched, since an eval may not make the runner fetch code; copy its file next to the eval and name that", ref, name)
		return
	case err != nil:
		doc.Problemf(at, "%s: file %q %v", ref, name, err)
		return
	}
	file := filepath.Join(source.Dir, source.Path)
	grader, err := l.open(file)
	if err != nil {
		l.fail(err)
	}
	if err != nil || !isGrader(grader) {
		doc.Problemf(at, "%s: file %q cannot be read as a grader", ref, name)
		return
	}
	l.eval.TextFiles = append(l.eval.TextFiles, file)
	if !doc.Lay(grader, at, "ref") {
		doc.Problemf(at, "%s: with the files that graders refer to, the eval is too large", ref)
	}
	doc.Add(strings.TrimSuffix(path.Base(name), path.Ext(name)), at, "name")
}

// isGrader checks a grader's file, except for its config, since the place that refers to the file may have
// parts of that.
func isGrader(doc *strictyaml.Document) bool {
	doc.Decode(new(Grader))
	if doc.Has("ref") {
		doc.Problemf(strictyaml.Path{"ref"}, "a grader's file cannot refer to another file; write the grader out here")
	}
	return doc.Err() == nil
}

// rows reads the tasks of tasks_from, a CSV file with the columns id, name and prompt. All columns are
// variables for the row's templates, and take precedence over the eval's inputs.
func (l *loader) rows(yield func(*Task) bool) {
	e, doc := l.eval, l.doc
	at, from, to := strictyaml.Path{"tasks_from"}, 0, 0
	if len(e.Range) == 2 {
		from, to = e.Range[0], e.Range[1]
	}
	if len(e.Range) != 0 && len(e.Range) != 2 || to < from || from < 1 && to > 0 {
		doc.Problemf(strictyaml.Path{"range"}, "range must be the first and the last row, counted from 1, such as [1, 10]")
		return
	}
	if e.TasksFrom == "" {
		if to > 0 {
			doc.Problemf(strictyaml.Path{"range"}, "range is of the rows of tasks_from, which the eval does not have; remove one or add the other")
		}
		return
	}
	content, err := readBelow(e.Dir(), e.TasksFrom)
	if err != nil {
		doc.Problemf(at, "tasks_from %q %v", e.TasksFrom, err)
		return
	}
	file := filepath.Join(e.Dir(), filepath.FromSlash(e.TasksFrom))
	rows, err := csv.NewReader(bytes.NewReader(content)).ReadAll()
	if broken, ok := errors.AsType[*csv.ParseError](err); ok {
		l.fail(strictyaml.Errors{{File: file, Position: strictyaml.Position{Line: broken.Line, Column: broken.Column}, Message: fmt.Sprintf("this is not valid CSV: %s; correct it", broken.Err)}})
		return
	}
	if len(rows) < 2 {
		doc.Problemf(at, "tasks_from %q must have a header line and at least one row", e.TasksFrom)
		return
	}
	for i, column := range rows[0] {
		if slices.Contains(rows[0][:i], column) {
			doc.Problemf(at, "tasks_from %q has two columns %q; remove one of them", e.TasksFrom, column)
			return
		}
	}
	if !slices.Contains(rows[0], "prompt") {
		doc.Problemf(at, "tasks_from %q has no column prompt; it has %q", e.TasksFrom, rows[0])
		return
	}
	common := tableOf(rows)
	read := 0
	for i, cells := range rows[1:] {
		number := i + 1
		if to > 0 && (number < from || number > to) {
			continue
		}
		if task := l.row(file, number, common, cells); task != nil {
			if read++; !yield(task) {
				return
			}
			task.doc.Forget()
		}
	}
	if read == 0 && len(l.errs) == 0 {
		doc.Problemf(strictyaml.Path{"range"}, "range leaves none of the %d rows of %s", len(rows)-1, e.TasksFrom)
	}
}

// table holds what the rows of a CSV file share.
type table struct {
	columns []string
	named   map[string]int // number of rows with each name, in lower case
}

func tableOf(rows [][]string) table {
	t := table{rows[0], map[string]int{}}
	if at := slices.Index(t.columns, "name"); at >= 0 {
		for _, cells := range rows[1:] {
			t.named[strings.ToLower(cells[at])]++
		}
	}
	return t
}

// row returns the task of one row, or nil if it cannot be read.
func (l *loader) row(file string, number int, common table, cells []string) *Task {
	task := &Task{Path: file, line: number + 1, vars: maps.Clone(l.eval.Inputs)} // columns take precedence over inputs
	if task.vars == nil {
		task.vars = map[string]string{}
	}
	for i, column := range common.columns {
		task.vars[column] = cells[i]
	}
	place := fmt.Sprintf("%s (row %d)", file, number)
	if strings.TrimSpace(task.vars["prompt"]) == "" {
		l.fail(strictyaml.Errors{{File: place, Message: "this row has no prompt; write one, or remove the row"}})
		return nil
	}
	name := task.vars["name"]
	if common.named[strings.ToLower(name)] > 1 {
		name = ""
	}
	text, err := json.Marshal(map[string]any{
		"id": cmp.Or(task.vars["id"], name, fmt.Sprintf("row-%d", number)), "name": cmp.Or(task.vars["name"], task.vars["id"]),
		"inputs": map[string]any{"prompt": task.vars["prompt"]},
	})
	if err == nil {
		task.doc, err = strictyaml.Parse(place, text)
	}
	if err != nil {
		l.fail(err)
		return nil
	}
	l.docs = append(l.docs, task.doc)
	task.doc.Decode(task)
	return task
}
