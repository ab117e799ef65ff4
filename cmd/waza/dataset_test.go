package main

import (
	"strings"
	"testing"
)

// Rows of a CSV file are tasks, and templates in prompts stand for the eval's inputs and for
// the row's columns.
func TestDataset(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, isolation: {network: airtight}, executor: mock}
inputs: {lang: Go, word: none}
tasks_from: rows.csv
range: [2, 3]
graders: [{type: text, name: said, config: {contains: [in Go]}}]
-- rows.csv --
id,name,word,prompt
a,First,one,no template
b,Second,two,"say {{.Vars.word}} in {{ .Vars.lang }}, {{.TaskName}}"
,,three,say {{.Vars.word}} in Go {{not one}}
d,Fourth,four,x
-- files.yaml --
name: NAME
config: {trials_per_task: 1, isolation: {network: airtight}, executor: mock}
inputs: {lang: Go}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: "write {{.Vars.lang}}", follow_up_prompts: ["more {{.Vars.lang}}"]}}
`)
	p.startLocal().wait(exitOK)
	tasks := p.results().Tasks
	if len(tasks) != 2 || tasks[0].Runs[0].FinalOutput != "Mock response for: say two in Go, Second\nTask: Second" ||
		tasks[1].TestID != "row-3" || tasks[1].Runs[0].FinalOutput != "Mock response for: say three in Go {{not one}}" {
		t.Errorf("%+v", tasks)
	}
	p.start("run", "files.yaml", "--run-dir", "files").wait(exitOK)
	if said := p.read("files", "results.json"); !strings.Contains(said, `"final_output": "Mock response for: more Go"`) {
		t.Error(said)
	}
	eval := p.read("eval.yaml")
	for change, want := range map[[2]string]string{
		{"lang: Go", "long: Go"}:          `the prompt has {{.Vars.lang}}, and inputs has no "lang"; did you mean "long"?`,
		{"[2, 3]", "[3, 2]"}:              "range must be the first and the last row",
		{"[2, 3]", "[7, 9]"}:              "range leaves none of the 4 rows",
		{"rows.csv", "../rows.csv"}:       "must be a relative path that does not lead out",
		{"rows.csv", "task.yaml"}:         "this is not valid CSV",
		{"tasks_from: rows.csv", "x: {}"}: "range is of the rows of tasks_from",
	} {
		p.write("eval.yaml", strings.Replace(eval, change[0], change[1], 1))
		c := p.start("run", "eval.yaml", "--dry-run")
		c.wait(exitUsage)
		if !strings.Contains(c.stderr.String(), want) {
			t.Errorf("%q: it does not say %q:\n%s", change, want, c.stderr.String())
		}
	}
}
