package main

import (
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
)

// Hooks run in the trial's sandbox, in their order around the agent. Graders do not see what those
// after it write. One that must not fail and does keeps the agent from starting.
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
  after_run: [{command: "tr '\\n' ' ' < log >&2; exit 5"}]
tasks: [task.yaml]
-- task.yaml --
id: x
inputs: {prompt: x}
graders: [{type: file, name: log, config: {content_patterns: [{path: log, must_match: ["^run\\ntask x\\nagent\\n$"]}]}}]
`)
	p.startLocal().wait(exitOK)
	if events := p.read("run", "trials", "x", "1", "events.jsonl"); strings.Count(events, `"kind":"hook"`) != 2 ||
		!strings.Contains(events, "exited with code 4: oh") || !strings.Contains(events, "exited with code 5: run task x agent after") {
		t.Error(events)
	}
	eval := p.read("eval.yaml")
	p.write("eval.yaml", strings.Replace(eval, "exit_codes: [0, 3], ", "", 1))
	p.start("run", "eval.yaml", "--run-dir", "fails", "--infra-retries", "0").wait(exitInfra)
	if said := p.read("fails", "results.json"); !strings.Contains(said, `hook \"exit 3\" exited with code 3`) || !strings.Contains(said, string(evidence.ReasonSandbox)) {
		t.Error(said)
	}
	p.write("eval.yaml", strings.Replace(eval, "working_directory: sub", "working_directory: ../..", 1))
	c := p.start("run", "eval.yaml", "--dry-run")
	c.wait(exitUsage)
	if want := "must be a directory in the workspace"; !strings.Contains(c.stderr.String(), want) {
		t.Errorf("it does not say %q:\n%s", want, c.stderr.String())
	}
}

const hostHooks = `
-- eval.yaml --
name: NAME
config: {trials_per_task: 2, isolation: {network: airtight}, timeout_seconds: 30, executor: mock}
hooks:
  before_run: [{command: "pwd > ../log; echo run >> ../log", working_directory: sub, host: true}]
  before_task: [{command: "echo task >> log", host: true}, {command: "exit 3", host: true, exit_codes: [3], error_on_fail: true}]
  after_task: [{command: "echo oh >&2; exit 4", host: true}]
  after_run: [{command: "echo end >> log", host: true}]
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}}
-- sub/file --
`

// A hook runs on the host only where the command line says so, those of the run once.
func TestHostHooks(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, hostHooks)
	checkHostHooks(t, p)
	p.write("eval.yaml", strings.Replace(p.read("eval.yaml"), "host: true}]", "host: true, exit_codes: [1], error_on_fail: true}]", 1))
	c := p.start("run", "eval.yaml", "--run-dir", "fails", "--allow-host-hooks")
	c.wait(exitInfra)
	if want := `on the host exited with code 0`; !strings.Contains(c.stderr.String(), want) || p.exists("fails", "trials", "x") {
		t.Errorf("it does not say %q:\n%s", want, c.stderr.String())
	}
}

// So it is with --isolate, where it takes a wall down.
func TestHostHooksWithIsolation(t *testing.T) {
	t.Parallel()
	p := newProject(t, hostHooks)
	checkHostHooks(t, p, "--isolate")
}

func checkHostHooks(t *testing.T, p *project, flags ...string) {
	t.Helper()
	c := p.startLocal(flags...)
	c.wait(exitUsage)
	if want := "hooks.before_run[0] runs on this machine with your permissions (host: true)"; !strings.Contains(c.stderr.String(), want) || !strings.Contains(c.stderr.String(), "--allow-host-hooks") || p.exists("log") {
		t.Errorf("it does not say %q:\n%s", want, c.stderr.String())
	}
	p.startLocal(append(flags, "--allow-host-hooks")...).wait(exitOK)
	if want := p.path("sub") + "\nrun\ntask\ntask\nend\n"; p.read("log") != want {
		t.Errorf("the log is %q, want %q", p.read("log"), want)
	}
	if events := p.read("run", "trials", "x", "1", "events.jsonl"); !strings.Contains(events, "on the host exited with code 4: oh") {
		t.Error(events)
	}
	if missing := strings.Join(p.trialRecord("x").Guarantees.Missing, "\n"); !strings.Contains(missing, "hooks of the eval run on the host") {
		t.Error(missing)
	}
}
