package eval

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/waza-isolate/waza/evidence"
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

// triggerTests is a file that is read when it stands beside an eval.
const triggerTests = "trigger_tests.yaml"

// TriggerTests is that file: prompts that a skill is for, and prompts that it is not for.
type TriggerTests struct {
	Skill                  string          `json:"skill"`
	ShouldTriggerPrompts   []TriggerPrompt `json:"should_trigger_prompts,omitempty"`
	ShouldNotTriggerPrompt []TriggerPrompt `json:"should_not_trigger_prompts,omitempty"`
}

// TriggerPrompt is one prompt.
type TriggerPrompt struct {
	Prompt     string `json:"prompt"`
	Reason     string `json:"reason,omitempty"`
	Confidence string `json:"confidence,omitempty" enum:"high medium"`
}

// TriggerTest says of a task that it is a prompt of trigger_tests.yaml.
type TriggerTest struct {
	ShouldTrigger bool
	Confidence    string
}

// triggers are a task for each prompt of the trigger_tests.yaml beside the eval: the agent
// is asked, and a grader looks whether it invoked the skill. An agent that invokes no
// skills by itself is asked nothing.
func (l *loader) triggers() []ResolvedTask {
	path := filepath.Join(l.eval.Dir(), triggerTests)
	if _, err := os.Stat(path); err != nil {
		return nil
	}
	doc, err := open(path)
	if err != nil {
		l.keep(err)
		return nil
	}
	var file TriggerTests
	doc.Decode(&file)
	if len(file.ShouldTriggerPrompts)+len(file.ShouldNotTriggerPrompt) == 0 {
		doc.Problemf(strictyaml.Path{"should_trigger_prompts"}, "%s has no prompt; give it should_trigger_prompts or should_not_trigger_prompts", triggerTests)
	}
	if err := doc.Err(); err != nil {
		l.keep(err)
		return nil
	}
	if executor := l.eval.Config.Executor; executor == "mock" || executor == "script" {
		doc.Warnf(strictyaml.Path{"skill"}, "its prompts are not run, and trigger_accuracy is not measured: executor %s invokes no skill", executor)
		l.warnings = append(l.warnings, doc.Warnings()...)
		return nil
	}
	var tasks []ResolvedTask
	for _, list := range []struct {
		should  bool
		name    string
		prompts []TriggerPrompt
	}{{true, "should", file.ShouldTriggerPrompts}, {false, "should-not", file.ShouldNotTriggerPrompt}} {
		for i, p := range list.prompts {
			tasks = append(tasks, l.trigger(doc, path, file.Skill, fmt.Sprintf("trigger_tests-%s-%d", list.name, i+1), list.should, p))
		}
	}
	l.keep(doc.Err())
	return tasks
}

func (l *loader) trigger(doc *strictyaml.Document, path, skill, id string, should bool, p TriggerPrompt) ResolvedTask {
	config := map[string]any{"forbidden_skills": []string{skill}}
	if should {
		config = map[string]any{"required_skills": []string{skill}, "mode": "any_order"}
	}
	data, _ := json.Marshal(config) // of strings
	r := resolver{loader: l, doc: doc, task: &Task{}}
	return ResolvedTask{
		ID: id, Name: id, Description: p.Reason, Path: path, Prompt: p.Prompt,
		Env: maps.Clone(l.eval.Config.Isolation.Agent.Env), Skills: r.skills(),
		Timeout: time.Duration(l.eval.Config.TimeoutSeconds) * time.Second,
		Graders: []evidence.GraderSpec{{Name: "trigger", Type: "skill_invocation", Weight: 1, Config: data}},
		Servers: servers{doc, under(doc, "mcp_servers"), l.eval}.merge(nil),
		Trigger: &TriggerTest{ShouldTrigger: should, Confidence: p.Confidence},
	}
}
