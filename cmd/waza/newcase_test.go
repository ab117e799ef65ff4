package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A trial becomes a task, which plays: with the trial's prompt, its files and what its server answered, and an assertion of
// each of its calls. The tasks that the cassette has already stay as they are.
func TestNewTaskFrom(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config:
  executor: script
  cassette: played
  mcp_servers: {inventory: {command: inventory, image: waza-examples/inventory}}
tasks: [tasks/*.yaml]
-- tasks/reserve.yaml --
id: reserve
inputs:
  prompt: "Reserve {{ three }} motors."
  files: [{path: in/order.txt, content: "three\n"}, {path: a.sh}]
script:
  - call: {server: inventory, tool: reserve_item, arguments: {sku: MTR-2200, quantity: 3}}
    as: reservation
  - call: {server: inventory, tool: find_item, arguments: {sku: '{{ "{{" }} x }}'}, expect: tool_error}
  - read: {path: a.sh}
    as: file
  - say: "{{ reservation.json.code }} {{ file.text }}"
-- fixtures/a.sh --
exit {{ 0 }}
-- played/cassette.yaml --
version: 1
-- played/tasks/reserve/servers/inventory.yaml --
# by hand
entries: [{kind: {method: initialize}, answer: {value: {result: {}}}}]
`, inventory)
	if err := os.Chmod(p.path("fixtures/a.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.start("run", "eval.yaml", "--run-dir", "live", "--isolate", "--play", "none").wait(exitOK)
	p.write("eval.yaml", strings.Replace(p.read("eval.yaml"), "image: waza-examples/inventory", "image: none.invalid/none", 1)) // which is not asked
	c := p.start("new", "task", "again", "--from", "live", "reserve/1")
	c.wait(exitOK)
	if out := c.stdout.String(); !strings.Contains(out, "play it with: waza run eval.yaml --task again\n") {
		t.Error(out)
	}
	if err := os.RemoveAll(p.path("live")); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"fixtures/again/a.sh": "exit {{ 0 }}\n", "fixtures/again/in/order.txt": "three\n",
		"played/tasks/reserve/servers/inventory.yaml": "# by hand\nentries: [{kind: {method: initialize}, answer: {value: {result: {}}}}]\n",
	} {
		if got := p.read(file); got != want {
			t.Errorf("%s is %q", file, got)
		}
	}
	if info, err := os.Stat(p.path("fixtures/again/a.sh")); err != nil || info.Mode()&0o100 == 0 {
		t.Errorf("it cannot be executed: %v %v", info, err)
	}
	task := p.read("tasks/again.yaml")
	for _, want := range []string{
		`prompt: "Reserve {{ three }} motors."`, `args: {values: {quantity: 3, sku: MTR-2200}}`, "max_tool_errors: 1", "expect: tool_error", "CHANGE ME",
	} {
		if !strings.Contains(task, want) {
			t.Errorf("the task has no %s:\n%s", want, task)
		}
	}
	p.start("check", "eval.yaml").wait(exitOK)
	c = p.start("run", "eval.yaml", "--isolate", "--task", "again", "--trials", "2", "--run-dir", "again")
	c.wait(exitOK)
	if t.Failed() {
		t.Log(c.stdout.String(), task)
	}
	p.write("tasks/again.yaml", strings.Replace(task, "quantity: 3, sku", "quantity: 4, sku", 1))
	p.start("run", "eval.yaml", "--isolate", "--task", "again", "--run-dir", "edited").wait(exitFailed)
}

// A trial with a model becomes a task that plays the model too.
func TestNewTaskFromModel(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config:
  executor: llm
  models: {stub: {script: model.yaml}}
  mcp_servers: {inventory: {command: inventory}}
tasks:
  - task.yaml
-- task.yaml --
id: price.of
inputs: {prompt: "What does BRG-6204 cost?"}
-- model.yaml --
conversations:
  - turns:
      - call: {tool: find_item, server: inventory, arguments: {sku: BRG-6204}}
      - say: "It costs {{ result.price_cents }} cents."
`)
	p.start("run", "eval.yaml", "--no-isolate", "--run-dir", "live").wait(exitOK)
	p.start("new", "task", "price", "--from", "live", "price.of/1").wait(exitOK)
	p.write("model.yaml", "conversations: [{turns: [{say: I was asked.}]}]\n")
	p.write("eval.yaml", strings.Replace(p.read("eval.yaml"), "command: inventory", "command: no-such-program", 1))
	p.start("check", "eval.yaml").wait(exitOK)
	p.start("run", "eval.yaml", "--no-isolate", "--task", "price", "--cassette", "cassette", "--run-dir", "played").wait(exitOK)
	if trial := p.read("played/trials/price/1/trial.json"); !strings.Contains(trial, "It costs 1273 cents.") {
		t.Error(trial)
	}
	if task := p.read("price.yaml"); strings.Contains(task, "script:") {
		t.Error(task)
	}
}

// What is no trial, or cannot be played, is told in one sentence, and nothing is written.
func TestNewTaskFromRefuses(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config: {executor: script, trials_per_task: 2}
tasks: [x.yaml]
-- x.yaml --
id: x
inputs: {prompt: x}
script: [{say: hello}]
`)
	p.start("run", "eval.yaml", "--no-isolate", "--run-dir", "run").wait(exitOK)
	before := p.tree(".")
	refused := func(want string, args ...string) {
		t.Helper()
		c := p.start(append([]string{"new", "task"}, args...)...)
		c.wait(exitUsage)
		if !strings.Contains(c.stderr.String(), want) {
			t.Errorf("%q says\n%s\nwant %s", args, c.stderr.String(), want)
		}
	}
	refused("nowhere is not a run directory", "--from", "nowhere", "x/1")
	refused("run has no trial other/1; see waza show run", "--from", "run", "other/1")
	refused("run has no trial x/3; see waza show run", "--from", "run", "x/3")
	refused("run has no trial x/one; see waza show run", "--from", "run", "x/one")
	refused("run has 2 trials of x; name one, such as x/1", "--from", "run", "x")
	refused("new task takes the trial of --from, as TASK/N", "--from", "run")
	refused("leave out --tool", "--from", "run", "--tool", "find", "x/1")
	refused(`"a b" cannot be the name of a task`, "a b", "--from", "run", "x/1")
	refused("run: no trial of the run shows anything to record", "--from", "run", "x/1")
	if err := os.RemoveAll(p.path("run/trials/x/1/frames")); err != nil {
		t.Fatal(err)
	}
	refused("run", "--from", "run", "x/1")
	if err := os.Remove(p.path("run/trials/x/2/trial.json")); err != nil {
		t.Fatal(err)
	}
	refused("run", "--from", "run", "x/2")
	after := p.tree(".")
	for name := range after {
		if _, known := before[name]; !known && filepath.Base(name) != "waza.log" {
			t.Errorf("%s was written", name)
		}
	}
}
