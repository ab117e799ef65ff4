package eval_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

const (
	scripted = `
-- eval.yaml --
name: demo
config: {trials_per_task: 1, timeout_seconds: 30, executor: script, model: small}
tasks: [task.yaml, second.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}, script: [{say: a}]}
-- second.yaml --
{id: y, inputs: {prompt: y}, script: [{say: a}]}
`
	commanded = `
-- eval.yaml --
name: demo
config:
  trials_per_task: 1
  timeout_seconds: 30
  executor: command
  agent: {command: cat}
  isolation: {agent: {image: "debian:bookworm-slim"}}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}}
`
	contained = `
-- eval.yaml --
name: demo
config: {trials_per_task: 1, timeout_seconds: 30, executor: mock, isolation: {agent: {image: "debian:bookworm-slim"}}}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}}
`
	mocked = `
-- eval.yaml --
name: demo
config: {trials_per_task: 1, timeout_seconds: 30, executor: mock}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}}
`
)

// Another executor and another model than the file's run the same eval, where they can.
func TestOverride(t *testing.T) {
	tests := []struct {
		name, eval      string
		executor, model string
		want            string // executor and model, or all that is wrong
	}{
		{"nothing", scripted, "", "", "script small"},
		{"the same", scripted, "script", "", "script small"},
		{"a model", scripted, "", "large", "script large"},
		{"both", mocked, "mock", "large", "mock large"},
		{"what the file has for its own executor stays", commanded, "mock", "", "mock "},
		{"tasks with a script", scripted, "mock", "", "mock small"},
		{"no scripts", mocked, "script", "", `missing key "script"; add the steps that executor script plays`},
		{"no command", contained, "command", "", "executor command needs config.agent"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			unpack(t, txtar.Parse([]byte(test.eval)))
			e, _, err := eval.Load("eval.yaml", eval.Options{Executor: test.executor, Model: test.model})
			if err != nil {
				var problems strictyaml.Errors
				if !errors.As(err, &problems) || len(problems) != 1 || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %v, want %q alone", err, test.want)
				}
				return
			}
			if got := e.Config.Executor + " " + e.Config.Model; got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func TestCheckExecutor(t *testing.T) {
	for name, want := range map[string]string{
		"mock":   "",
		"comand": `did you mean "command"?`,
		"":       "known here: ",
		"nobody": "known here: ",
	} {
		err := eval.CheckExecutor(name)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}
