package main

import (
	"strings"
	"testing"

	"github.com/waza-isolate/waza/runner/evidence"
)

// Hooks run in the trial's sandbox, in their order around the agent. One that must not fail
// and does keeps the agent from starting.
func TestHooks(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  timeout_seconds: 30
  executor: command
  agent: {command: sh, args: ["-c", "echo agent >> log"]}
hooks:
  before_run: [{command: "echo run > log; mkdir sub"}]
  before_task: [{command: "echo \"task $WAZA_TASK\" >> ../log", working_directory: sub, error_on_fail: true}, {command: "exit 3", exit_codes: [0, 3], error_on_fail: true}]
  after_task: [{command: "echo after >> log"}, {command: "echo oh >&2; exit 4"}]
  after_run: [{command: "echo end >> log"}]
tasks: [task.yaml]
-- task.yaml --
id: x
inputs: {prompt: x}
graders: [{type: file, name: log, config: {content_patterns: [{path: log, must_match: ["^run\\ntask x\\nagent\\nafter\\nend\\n$"]}]}}]
`)
	p.startLocal().wait(exitOK)
	if events := p.read("run", "trials", "x", "1", "events.jsonl"); strings.Count(events, `"kind":"hook"`) != 1 || !strings.Contains(events, "exited with code 4: oh") {
		t.Error(events)
	}
	eval := p.read("eval.yaml")
	p.write("eval.yaml", strings.Replace(eval, "exit_codes: [0, 3], ", "", 1))
	p.start("run", "eval.yaml", "--run-dir", "fails", "--infra-retries", "0").wait(exitInfra)
	if said := p.read("fails", "results.json"); !strings.Contains(said, `hook \"exit 3\" exited with code 3`) || !strings.Contains(said, string(evidence.ReasonSandbox)) {
		t.Error(said)
	}
	p.write("eval.yaml", strings.NewReplacer("working_directory: sub", "working_directory: ../..", "exit_codes: [0, 3]", "host: true").Replace(eval))
	c := p.start("run", "eval.yaml", "--dry-run")
	c.wait(exitUsage)
	for _, want := range []string{"must be a directory in the workspace", "not supported yet: hooks.before_task[1].host"} {
		if !strings.Contains(c.stderr.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, c.stderr.String())
		}
	}
}
