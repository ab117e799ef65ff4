package eval

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// reader reads the files of one eval.
type reader struct {
	eval   *Eval
	strict bool // unknown keys are problems
}

// findings are problems and warnings of files.
type findings struct {
	errs     []error
	warnings []*strictyaml.Error
}

func (f *findings) keep(err error) {
	if err != nil {
		f.errs = append(f.errs, err)
	}
}

// add keeps what was found in a task's file, and in the files that it refers to.
func (f *findings) add(file taskFile) {
	f.errs = append(f.errs, file.refs.errs...)
	f.warnings = append(f.warnings, file.refs.warnings...)
	if file.doc != nil {
		f.keep(file.doc.Err())
		f.warnings = append(f.warnings, file.doc.Warnings()...)
	}
}

// taskFile is a task as it was read.
type taskFile struct {
	doc  *strictyaml.Document
	task *Task    // nil where the file cannot be read
	refs findings // of the files of graders that it refers to
}

// open reads and parses the file at path.
func (in reader) open(path string) (*strictyaml.Document, error) {
	doc, err := open(path)
	if err == nil && in.strict {
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

// tasks reads the tasks that the eval's document names: rows of tasks_from, or files.
func (in reader) tasks(doc *strictyaml.Document) (all []taskFile) {
	if rows := in.rows(doc); in.eval.TasksFrom != "" {
		return rows
	}
	for _, path := range taskPaths(doc, in.eval) {
		file := taskFile{}
		var err error
		if file.doc, err = in.open(path); err != nil {
			file.refs.keep(err)
			all = append(all, file)
			continue
		}
		file.task = &Task{Path: path}
		in.layRefs(&file.refs, file.doc, "graders")
		in.layRefs(&file.refs, file.doc, "attack", "success")
		for i := 0; file.doc.Has("checkpoints", i); i++ {
			in.layRefs(&file.refs, file.doc, "checkpoints", i, "graders")
		}
		file.doc.Decode(file.task)
		all = append(all, file)
	}
	return all
}

// taskPaths are the paths of the files that the eval's globs match, each once.
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
		matches, err := filepath.Glob(filepath.Join(quoteGlob(e.Dir()), pattern))
		if err != nil {
			doc.Problemf(at, "%s is not a glob: %v", at, err)
			continue
		}
		if len(matches) == 0 {
			doc.Problemf(at, "%s matches no file in %s", at, show(e.Dir()))
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
func (in reader) layRefs(to *findings, doc *strictyaml.Document, base ...any) {
	for i := 0; doc.Has(strictyaml.Path(base).With(i)...); i++ {
		at := strictyaml.Path(base).With(i)
		if doc.Has(at.With("ref")...) {
			in.layRef(to, doc, at)
		}
	}
}

// layRef lays a grader's file below it. The name of a grader that has none is the file's.
func (in reader) layRef(to *findings, doc *strictyaml.Document, at strictyaml.Path) {
	var name string
	ref := at.With("ref")
	if !doc.DecodeAt(&name, ref...) || name == "" {
		return
	}
	source, err := in.eval.roots().inside(name)
	switch {
	case err != nil && strings.ContainsAny(name, "@:"):
		doc.Problemf(at, "%s: %q is a grader of a registry, which is not fetched, since an eval may not make the runner fetch code; put its file beside the eval and name that", ref, name)
		return
	case err != nil:
		doc.Problemf(at, "%s: file %q %v", ref, name, err)
		return
	}
	file := filepath.Join(source.Dir, source.Path)
	grader, err := in.openGrader(to, file)
	if err != nil {
		doc.Problemf(at, "%s: file %q cannot be read as a grader", ref, name)
		to.keep(err)
		return
	}
	in.eval.TextFiles = append(in.eval.TextFiles, file)
	if !doc.Lay(grader, at, "ref") {
		doc.Problemf(at, "%s: with the files that graders refer to, the eval is too large", ref)
	}
	doc.Add(strings.TrimSuffix(path.Base(name), path.Ext(name)), at, "name")
}

// openGrader reads and checks a grader's file, except its config: a part of that may stand
// where the file is referred to.
func (in reader) openGrader(to *findings, file string) (*strictyaml.Document, error) {
	doc, err := in.open(file)
	if err != nil {
		return nil, err
	}
	doc.Decode(new(Grader))
	if doc.Has("ref") {
		doc.Problemf(strictyaml.Path{"ref"}, "a grader's file cannot refer to another file; write the grader out here")
	}
	to.warnings = append(to.warnings, doc.Warnings()...)
	return doc, doc.Err()
}

// maxRows is how many rows a dataset may have.
const maxRows = 10_000

// rows reads the tasks of tasks_from: a row of a CSV file each, with the columns id, name
// and prompt. All columns are variables of the row's templates, over the eval's inputs.
func (in reader) rows(doc *strictyaml.Document) (tasks []taskFile) {
	e := in.eval
	at, from, to := strictyaml.Path{"tasks_from"}, 0, 0
	if len(e.Range) == 2 {
		from, to = e.Range[0], e.Range[1]
	}
	if len(e.Range) != 0 && len(e.Range) != 2 || to < from || from < 1 && to > 0 {
		doc.Problemf(strictyaml.Path{"range"}, "range must be the first and the last row, counted from 1, such as [1, 10]")
		return nil
	}
	if e.TasksFrom == "" {
		if to > 0 {
			doc.Problemf(strictyaml.Path{"range"}, "range is of the rows of tasks_from, which the eval does not have; remove one or add the other")
		}
		return nil
	}
	content, err := readBelow(e.Dir(), e.TasksFrom)
	if err != nil {
		doc.Problemf(at, "tasks_from %q %v", e.TasksFrom, err)
		return nil
	}
	rows, err := csv.NewReader(bytes.NewReader(content)).ReadAll()
	if err != nil || len(rows) < 2 || len(rows) > maxRows {
		doc.Problemf(at, "tasks_from %q must be CSV with a line of columns and from 1 to %d rows below it%s", e.TasksFrom, maxRows-1, behind(err))
		return nil
	}
	if !slices.Contains(rows[0], "prompt") {
		doc.Problemf(at, "tasks_from %q has no column prompt; it has %q", e.TasksFrom, rows[0])
		return nil
	}
	file := filepath.Join(e.Dir(), filepath.FromSlash(e.TasksFrom))
	for i, cells := range rows[1:] {
		if number := i + 1; to == 0 || number >= from && number <= to {
			tasks = append(tasks, row(e, file, number, rows[0], cells))
		}
	}
	if len(tasks) == 0 {
		doc.Problemf(strictyaml.Path{"range"}, "range leaves none of the %d rows of %s", len(rows)-1, e.TasksFrom)
	}
	return tasks
}

func behind(err error) string {
	if err == nil {
		return ""
	}
	return ": " + flat(err)
}

// row is the task of one row.
func row(e *Eval, file string, number int, columns, cells []string) (read taskFile) {
	vars := map[string]string{}
	maps.Copy(vars, e.Inputs)
	for i, column := range columns {
		vars[column] = cells[i]
	}
	text, err := json.Marshal(map[string]any{
		"id": cmp.Or(vars["id"], fmt.Sprintf("row-%d", number)), "name": cmp.Or(vars["name"], vars["id"]),
		"inputs": map[string]any{"prompt": vars["prompt"]},
	})
	if err == nil {
		read.doc, err = strictyaml.Parse(fmt.Sprintf("%s (row %d)", file, number), text)
	}
	if err != nil {
		read.refs.keep(err)
		return read
	}
	read.task = &Task{Path: file, vars: vars}
	read.doc.Decode(read.task)
	return read
}
