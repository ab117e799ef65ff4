package eval_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// TestUpstreamFiles loads what upstream's files hold and ours need not.
func TestUpstreamFiles(t *testing.T) {
	unpack(t, txtar.Parse([]byte(`
-- evals/stock/eval.yaml --
name: 7
skill: stock
schemaVersion: 1.9
scenario: {kind: cli}
version: 1.0
anything: new
hooks: {}
config:
  trials_per_task: 1
  timeout_seconds: 60
  executor: mock
  workers: 0
metrics:
  - name: own_quality
    threshold: 1
    weight: 1
graders:
  - type: text
    config: {contains: [42], patern_of_old: x}
  - type: text
    name: shared
    config: {contains: [a]}
  - type: diff
    name: kept
    config: {expected_files: [{path: a.txt, snapshot: evals/stock/fixtures/tree/a.txt}]}
tasks: [tasks/*.yaml]
-- evals/stock/fixtures/tree/a.txt --
a
-- evals/stock/fixtures/tree/deep/b.txt --
b
-- evals/stock/tasks/one.yaml --
id: Sort / my parts
inputs:
  prompt: ""
  files: [{path: tree}]
  environment: {PORT: 80, DEBUG: true}
golden: true
expected:
  outcomes: [{type: task_completed}, {type: tool_called, value: bash}]
  output_contains_any: [x, y]
  should_trigger: false
  max_response_time_ms: 9
  tool_calls: {}
  behavior: {max_iterations: 3, max_tokens: 0, max_response_time_ms: 5}
graders:
  - type: text
    name: shared
    config: {contains: [b]}
-- skills/stock/SKILL.md --
---
name: stock
description: Counts: parts
---
-- skills/other/SKILL.md --
---
name: other
description: Other.
---
-- skills/broken/SKILL.md --
no front matter
`)))
	e, tasks, err := eval.Load("evals/stock/eval.yaml", eval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	task := tasks[0]
	if e.Name != "7" || e.Version != "1.0" || string(e.Labels()["schemaVersion"]) != `"1.9"` || string(e.Labels()["metrics"]) != `["own_quality"]` {
		t.Errorf("eval %+v with labels %s", e, e.Labels())
	}
	if !strings.HasPrefix(task.ID, "Sort-my-parts-") || string(task.Labels["id"]) != `"Sort / my parts"` || !task.Golden {
		t.Errorf("task %s with labels %s", task.ID, task.Labels)
	}
	if want := map[string]string{"PORT": "80", "DEBUG": "true"}; !maps.Equal(task.Env, want) {
		t.Errorf("environment %v", task.Env)
	}
	var got []string
	for _, f := range task.Files {
		got = append(got, f.Path)
	}
	for _, s := range task.Skills {
		got = append(got, "skill "+s.Name)
	}
	for _, g := range task.Graders {
		got = append(got, g.Name+" "+string(g.Config))
	}
	want := []string{
		"tree/a.txt", "tree/deep/b.txt", "skill stock", "skill other",
		`text-1 {"contains":["42"]}`, `kept {"expected_files":[{"path":"a.txt","snapshot":"evals/stock/fixtures/tree/a.txt"}]}`,
		`_output_contains_any {"contains_any":["x","y"]}`, `expected:behavior {"max_iterations":3,"max_duration_ms":5}`,
		`expected:outcomes {"required_tools":["bash"]}`, `expected:max_response_time_ms {"max_duration_ms":9}`,
		`shared {"contains":["b"]}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	said := ""
	for _, w := range e.Warnings {
		said += w.Message + "\n"
	}
	for _, want := range []string{"unknown key anything", "unknown key graders[0].config.patern_of_old", "the skill in skills/broken is left out"} {
		if !strings.Contains(said, want) {
			t.Errorf("no warning %q in\n%s", want, said)
		}
	}
}

// TestUnknownKeys gives upstream's mappings keys that nothing knows, in files of several versions.
func TestUnknownKeys(t *testing.T) {
	const good = "name: n\nskill: s\nconfig: {trials_per_task: 1, timeout_seconds: 5, executor: mock}\ntasks: [t.yaml]\n"
	const task = "id: t\nname: T\ninputs: {prompt: p}\n"
	for _, test := range []struct{ version, eval, task, want string }{
		{"", strings.Replace(good, "timeout_seconds: 5", "timeout_secs: 5", 1), task, `eval.yaml:3:30: unknown key "timeout_secs"; did you mean "timeout_seconds"?`},
		{"", good + "threshold: 0.9\n", task, `eval.yaml:5:1: unknown key "threshold"; known here: `},
		{"1.0", good + "graders: [{type: text, name: g, config: {must_contain: [x]}}]\n", task, `eval.yaml:6:42: unknown key "must_contain"; known here: `},
		{"1.2", good, task + "retry: 2\n", `t.yaml:4:1: unknown key "retry"; known here: `},
		{"2.0", good + "hooks: {before_run: [{command: x, shell: bash}]}\n", task, `eval.yaml:6:35: unknown key "shell"; known here: `},
		{"1.x", good + "anything: 1\n", task, `eval.yaml:6:1: unknown key "anything"`},
		{"1.3", good + "anything: 1\n", task + "retry: 2\n", ""},
		{"2.1", good + "anything: 1\n", task, ""},
		{"2.1", good + "skil: x\n", task, `eval.yaml:6:1: unknown key "skil"; did you mean "skill"?`},
		{"2.1", good + "mcp_mocks: [{name: m, anything: 1}]\n", task, `unknown key "anything"`},
	} {
		if test.version != "" {
			test.eval = "schemaVersion: " + test.version + "\n" + test.eval
		}
		unpack(t, &txtar.Archive{Files: []txtar.File{{Name: "eval.yaml", Data: []byte(test.eval)}, {Name: "t.yaml", Data: []byte(test.task)}}})
		e, _, err := eval.Load("eval.yaml", eval.Options{})
		if test.want == "" {
			if err != nil || len(e.Warnings) == 0 || !strings.Contains(e.Warnings[0].Message, "unknown key anything is ignored: schemaVersion "+test.version+" is newer than ") {
				t.Errorf("%s: %v", test.version, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s%s: %v; want %s", test.eval, test.task, err, test.want)
		}
	}
}

// TestRows reads tables of tasks as programs write them, and refuses those that lose something.
func TestRows(t *testing.T) {
	for _, test := range []struct{ rows, id, want string }{
		{"\ufeffid,prompt\r\nhinge,p\r\n", "hinge", ""},
		{"\ufeff\"prompt\",id\nq,bolt\n\n", "bolt", ""},
		{"id,prompt\na,p\n,\n", "", "rows.csv (row 2): this row has no prompt; write one, or remove the row"},
		{"id,prompt\na,  \n", "", "rows.csv (row 1): this row has no prompt"},
		{"prompt,id,prompt\np,a,q\n", "", `has two columns "prompt"; remove one of them`},
		{"id,prompt,,\na,p,x,y\n", "", `has two columns ""`},
		{"id,prompt\na,caf\xe9\n", "", "is not UTF-8 text: it has the byte 0xe9 in line 2, column 6"},
	} {
		unpack(t, &txtar.Archive{Files: []txtar.File{
			{Name: "eval.yaml", Data: []byte("name: n\nconfig: {trials_per_task: 1, timeout_seconds: 5, executor: mock}\ntasks_from: rows.csv\n")},
			{Name: "rows.csv", Data: []byte(test.rows)},
		}})
		_, tasks, err := eval.Load("eval.yaml", eval.Options{})
		switch {
		case test.want == "" && (err != nil || len(tasks) != 1 || tasks[0].ID != test.id):
			t.Errorf("%q: %+v, %v", test.rows, tasks, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%q: %v; want %s", test.rows, err, test.want)
		}
	}
}

// TestSkillIsFound looks for a skill in each place, and in none.
func TestSkillIsFound(t *testing.T) {
	const e = "name: n\nskill: tides\nconfig: {executor: copilot}\ntasks: [task.yaml]\n"
	const skill = "---\nname: tides\ndescription: d\n---\n"
	for _, test := range []struct{ at, eval, config string }{
		{at: "skills/tides", eval: "evals/tides"},
		{at: "tides", eval: "evals/tides"},
		{at: ".", eval: "evals/tides"},
		{at: "plugin/skills/tides", eval: "plugin/skills/tides/evals"},
		{at: "plugin/skills/tides", eval: "plugin/skills/tides"},
		{at: ".github/skills/tides", eval: ".github/evals/tides"},
		{at: ".claude/skills/elsewhere", eval: "evals/tides"},
		{at: "a/b/c/tides", eval: "evals/tides"},
		{at: "own/tides", eval: "evals/tides", config: "paths: {skills: own}\ntokens: {x: 1}\n"},
		{at: "", eval: "evals/tides"},
		{at: "node_modules/tides", eval: "evals/tides"},
	} {
		archive := txtar.Parse(nil)
		add := func(name, text string) {
			archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(text)})
		}
		add(filepath.Join(test.eval, "eval.yaml"), e)
		add(filepath.Join(test.eval, "task.yaml"), "id: t\ninputs: {prompt: p}\n")
		if test.at != "" {
			add(filepath.Join(test.at, "SKILL.md"), skill)
		}
		if test.config != "" {
			add(".waza.yaml", test.config)
		}
		unpack(t, archive)
		_, tasks, err := eval.Load(filepath.Join(test.eval, "eval.yaml"), eval.Options{})
		if test.at == "" || strings.HasPrefix(test.at, "node_modules") {
			if err == nil || !strings.Contains(err.Error(), `there is no skill "tides" in skills, this directory`) {
				t.Errorf("%q: %v", test.at, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.at, err)
			continue
		}
		if len(tasks[0].Skills) != 1 || tasks[0].Skills[0].Name != "tides" {
			t.Errorf("%s: skills %+v", test.at, tasks[0].Skills)
			continue
		}
		for _, f := range tasks[0].Skills[0].Files {
			if strings.Contains(f.Path, "eval.yaml") || strings.Contains(f.Path, "task.yaml") {
				t.Errorf("%s: the agent finds %s of the eval", test.at, f.Path)
			}
		}
	}
}

// TestEvalStaysInItsRepository checks that an eval reaches only files that were named: not
// above where waza was started, and not from a home directory.
func TestEvalStaysInItsRepository(t *testing.T) {
	archive := txtar.Parse([]byte(`
-- home/secret.txt --
s
-- home/private/SKILL.md --
---
name: private
description: d
---
-- home/repo/.waza.yaml --
-- home/repo/evals/eval.yaml --
name: n
config: {executor: mock, skill_directories: [../../private]}
graders:
  - {type: diff, name: d, config: {expected_files: [{path: a, snapshot: secret.txt}]}}
tasks: [task.yaml]
-- home/repo/evals/task.yaml --
id: t
inputs: {prompt: p}
`))
	archive.Files[2].Data = []byte("paths: {}\n")
	unpack(t, archive)
	home, err := filepath.Abs("home")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	if err := os.Chdir(home); err != nil { // unpack goes back
		t.Fatal(err)
	}
	for _, dir := range []string{home, filepath.Join(home, "repo")} {
		if err := os.Chdir(dir); err != nil {
			t.Fatal(err)
		}
		_, _, err = eval.Load(filepath.Join(home, "repo/evals/eval.yaml"), eval.Options{})
		if err == nil || !strings.Contains(err.Error(), "outside of the eval's repository") || !strings.Contains(err.Error(), `file "secret.txt" does not exist`) {
			t.Errorf("in %s: %v", dir, err)
		}
	}
}

// Programs of skills that an image of waza's for an agent cannot run are said before the run.
func TestSkillsTools(t *testing.T) {
	const e = `
-- eval.yaml --
name: x
skill: counts
config: {trials_per_task: 1, timeout_seconds: 60, executor: EXECUTOR, model: m, skill_directories: [skills]}
tasks: [t.yaml]
-- t.yaml --
{id: t, inputs: {prompt: p}}
-- skills/counts/SKILL.md --
---
name: counts
description: d
---
-- skills/counts/scripts/count.py --
print(1)
`
	for _, test := range []struct {
		executor string
		local    bool
		want     bool
	}{{"copilot", false, true}, {"copilot", true, false}, {"mock", false, false}} {
		unpack(t, txtar.Parse([]byte(strings.ReplaceAll(e, "EXECUTOR", test.executor))))
		loaded, _, err := eval.Load("eval.yaml", eval.Options{Local: test.local})
		if err != nil {
			t.Fatal(err)
		}
		const text = "skill counts has scripts/count.py, and the image of GitHub Copilot CLI lacks Python"
		if got := slices.ContainsFunc(loaded.Warnings, func(w *strictyaml.Error) bool { return strings.HasPrefix(w.Message, text) }); got != test.want {
			t.Errorf("%+v: warnings %v", test, loaded.Warnings)
		}
	}
}

// Hooks have a container with the usual tools where the agent's would have none, and what an
// image of waza's for an agent lacks is said before the run.
func TestHooksTools(t *testing.T) {
	const e = `
-- eval.yaml --
name: x
config: {trials_per_task: 1, timeout_seconds: 60, executor: EXECUTOR, model: m}
hooks:
  before_run: [{command: "true && git init ."}, {command: "echo git"}]
  after_run: [{command: "python3 check.py"}]
tasks: [t.yaml]
-- t.yaml --
{id: t, inputs: {prompt: p}}
`
	for executor, want := range map[string]struct {
		image  string
		warned []string
	}{
		"mock":    {"waza-tools:latest", nil},
		"copilot": {"", []string{"hooks.before_run[0] calls git, which the image of GitHub Copilot CLI lacks", "hooks.after_run[0] calls python3, which"}},
	} {
		unpack(t, txtar.Parse([]byte(strings.ReplaceAll(e, "EXECUTOR", executor))))
		loaded, _, err := eval.Load("eval.yaml", eval.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if image := loaded.Config.Isolation.Agent.Image; image != want.image {
			t.Errorf("%s: the agent's image is %q", executor, image)
		}
		if len(loaded.Warnings) != len(want.warned) {
			t.Errorf("%s: warnings %v", executor, loaded.Warnings)
			continue
		}
		for i, text := range want.warned {
			if !strings.HasPrefix(loaded.Warnings[i].Message, text) {
				t.Errorf("%s: it warns %q, want %q", executor, loaded.Warnings[i].Message, text)
			}
		}
	}
}
