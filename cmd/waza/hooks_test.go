package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
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

// What a hook does with servers is recorded as the hook's, and is not the agent's: calls do not count,
// lists are not what the agent saw. Its session, and what it left running, end with it.
func TestHooksAreNotTheAgent(t *testing.T) {
	t.Parallel()
	dockertest.Tool(t, "curl")
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: script
  mcp_servers: {inventory: {command: inventory}}
hooks:
  before_task: [{command: "sh hook.sh", error_on_fail: true}]
tasks: [task.yaml]
-- fixtures/hook.sh --
set -e
url=$(sed -n 's/.*"url": *"\([^"]*\)".*/\1/p' "$WAZA_MCP_CONFIG")
ask() { curl -sSf -D head -o answer -H 'Accept: application/json, text/event-stream' -H 'Content-Type: application/json' -H "$session" -d "$1" "$url"; }
session=X-None:1
ask '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"hook","version":"1"}}}'
session=$(tr -d '\r' < head | grep -i ^mcp-session-id:)
ask '{"jsonrpc":"2.0","method":"notifications/initialized"}'
ask '{"jsonrpc":"2.0","id":2,"method":"tools/list"}'
ask '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"reserve_item","arguments":{"sku":"BRG-6204","quantity":1}}}'
grep -q content answer
setsid sh -c 'sleep 1; curl -s -d "{}" "$0"; sleep 5; touch late' "$url" > /dev/null 2>&1 &
-- task.yaml --
id: x
inputs: {prompt: x, files: [{path: hook.sh}]}
script:
  - call: {server: inventory, tool: reserve_item, arguments: {sku: BRG-6204, quantity: 1}}
graders:
  - {type: behavior, name: one_call, config: {max_tool_calls: 1}}
  - {type: mcp_compliance, name: none_twice, config: {server: inventory, max_duplicate_calls: 0}}
`)
	p.startLocal().wait(exitOK)
	if got := p.outcomes("x"); !slices.Equal(got, []string{"inventory reserve_item ok"}) {
		t.Errorf("the agent's calls are %q", got)
	}
	senders := map[string]evidence.Sender{}
	for f, err := range p.trial("x").Frames() {
		if err != nil {
			t.Fatal(err)
		}
		if was, ok := senders[f.Conn]; ok && was != f.Sender {
			t.Errorf("conversation %s has senders %q and %q", f.Conn, was, f.Sender)
		}
		senders[f.Conn] = f.Sender
	}
	if senders["hook/inventory/1"] != evidence.SenderHook || senders["hook/inventory/2"] != "" || len(senders) < 2 {
		t.Errorf("senders by conversation are %v", senders)
	}
	if catalogs := p.read("run", "trials", "x", "1", evidence.CatalogsFile); catalogs != "" {
		t.Errorf("the agent asked for no list: %s", catalogs)
	}
	if got := p.events("x", evidence.EventHookCall); len(got) != 1 || got[0].Where != "inventory" {
		t.Errorf("events are %+v", got)
	}
	show := p.start("show", "run", "x")
	show.wait(exitOK)
	if want := "inventory  a hook calls reserve_item"; !strings.Contains(show.stdout.String(), want) {
		t.Errorf("show does not say %q:\n%s", want, show.stdout.String())
	}
}

const hostHooks = `
-- eval.yaml --
name: NAME
config: {trials_per_task: 2, isolation: {network: airtight}, executor: mock}
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
