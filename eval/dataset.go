package eval

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/waza-isolate/waza/internal/strictyaml"
)

// maxRows is how many rows a dataset may have.
const maxRows = 10_000

// dataset reads the tasks of tasks_from: a row of a CSV file each, with the columns id, name
// and prompt. All columns are variables of the row's templates, over the eval's inputs.
func (l *loader) dataset() (tasks []ResolvedTask) {
	at, from, to := strictyaml.Path{"tasks_from"}, 0, 0
	if len(l.eval.Range) == 2 {
		from, to = l.eval.Range[0], l.eval.Range[1]
	}
	if len(l.eval.Range) != 0 && len(l.eval.Range) != 2 || to < from || from < 1 && to > 0 {
		l.doc.Problemf(strictyaml.Path{"range"}, "range must be the first and the last row, counted from 1, such as [1, 10]")
		return nil
	}
	if l.eval.TasksFrom == "" {
		if to > 0 {
			l.doc.Problemf(strictyaml.Path{"range"}, "range is of the rows of tasks_from, which the eval does not have; remove one or add the other")
		}
		return nil
	}
	content, err := readBounded(l.eval.Dir(), l.eval.TasksFrom)
	if err != nil {
		l.doc.Problemf(at, "tasks_from %q %v", l.eval.TasksFrom, err)
		return nil
	}
	rows, err := csv.NewReader(bytes.NewReader(content)).ReadAll()
	if err != nil || len(rows) < 2 || len(rows) > maxRows {
		l.doc.Problemf(at, "tasks_from %q must be CSV with a line of columns and from 1 to %d rows below it%s", l.eval.TasksFrom, maxRows-1, behind(err))
		return nil
	}
	if !slices.Contains(rows[0], "prompt") {
		l.doc.Problemf(at, "tasks_from %q has no column prompt; it has %q", l.eval.TasksFrom, rows[0])
		return nil
	}
	file := filepath.Join(l.eval.Dir(), filepath.FromSlash(l.eval.TasksFrom))
	for i, cells := range rows[1:] {
		if number := i + 1; to == 0 || number >= from && number <= to {
			task, err := l.row(file, number, rows[0], cells)
			l.keep(err)
			tasks = append(tasks, task)
		}
	}
	if len(tasks) == 0 {
		l.doc.Problemf(strictyaml.Path{"range"}, "range leaves none of the %d rows of %s", len(rows)-1, l.eval.TasksFrom)
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
func (l *loader) row(file string, number int, columns, cells []string) (ResolvedTask, error) {
	vars := maps.Clone(l.eval.Inputs)
	if vars == nil {
		vars = map[string]string{}
	}
	for i, column := range columns {
		vars[column] = cells[i]
	}
	text, err := json.Marshal(map[string]any{
		"id": or(vars["id"], fmt.Sprintf("row-%d", number)), "name": or(vars["name"], vars["id"]),
		"inputs": map[string]any{"prompt": vars["prompt"]},
	})
	if err != nil {
		return ResolvedTask{}, err
	}
	doc, err := strictyaml.Parse(fmt.Sprintf("%s (row %d)", file, number), text)
	if err != nil {
		return ResolvedTask{}, err
	}
	task := &Task{Path: file, vars: vars}
	doc.Decode(task)
	return resolver{loader: l, doc: doc, task: task}.resolve(), doc.Err()
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

// template is what stands for a value in a prompt.
var template = regexp.MustCompile(`\{\{-?\s*\.(Vars\.([A-Za-z_][A-Za-z0-9_]*)|[A-Z][A-Za-z]*)\s*-?\}\}`)

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
