package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
)

// TestOutcomes checks that the outcome of a trial depends on who ended it.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, isolation: {network: airtight}, parallel: true, workers: 4, executor: script}
graders:
  - {type: text, name: said, config: {contains: [done]}}
tasks: [tasks/*.yaml]
-- tasks/1.yaml --
{id: passes, inputs: {prompt: x}, script: [{say: done}]}
-- tasks/2.yaml --
{id: fails, inputs: {prompt: x}, script: [{say: not yet}]}
-- tasks/3.yaml --
{id: breaks, inputs: {prompt: x}, script: [{say: done}, {fail: no way}]}
-- tasks/4.yaml --
{id: sleeps, timeout_seconds: 1, inputs: {prompt: x}, script: [{say: done}, {sleep: 60s}]}
`)
	c := p.run(exitFailed)
	want := map[string]evidence.Class{
		"passes": evidence.ClassPass, "fails": evidence.ClassFail,
		"breaks": evidence.ClassAgentError, "sleeps": evidence.ClassTimeout,
	}
	reasons := map[string]evidence.Reason{
		"fails": evidence.ReasonGraders, "breaks": evidence.ReasonExitCode, "sleeps": evidence.ReasonTimeLimit,
	}
	for task, class := range want {
		run := p.runOf(task)
		if run.Outcome != class || run.Reason != reasons[task] {
			t.Errorf("%s: %s (%s: %s), want %s (%s)", task, run.Outcome, run.Reason, run.Message, class, reasons[task])
		}
		if _, graded := run.Validations["said"]; !graded {
			t.Errorf("%s was not graded", task)
		}
	}
	if reason := p.runOf("sleeps").Message; !strings.Contains(reason, "1s") {
		t.Errorf("the timeout's reason is %q", reason)
	}
	if !strings.Contains(p.read("run", "trials", "breaks", "1", "agent.stderr"), "no way") {
		t.Error("the agent's stderr is not kept")
	}
	for _, line := range []string{"fails/1 fail", "breaks/1 agent crashed", "sleeps/1 timeout", "run directory: run"} {
		if !strings.Contains(c.stdout.String(), line) {
			t.Errorf("stdout lacks %q:\n%s", line, c.stdout.String())
		}
	}
	lines := strings.Count(c.stderr.String(), "\n")
	if done := lines - strings.Count(c.stderr.String(), "checking that nothing gets out"); done != 4 {
		t.Errorf("%d lines of progress, want one for each trial:\n%s", done, c.stderr.String())
	}
	p.start("grade", "run").wait(exitFailed)
}

// A server that does not start is our failure and not the agent's: the message
// names the server and why, and what it complained of is kept.
func TestServerDoesNotStart(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  parallel: true
  executor: mock
  isolation: {network: airtight, server_image: "debian:bookworm-slim"}
tasks: [tasks/*.yaml]
-- tasks/1.yaml --
id: exits
inputs: {prompt: x}
mcp_servers: {broken: {command: sh, args: [-c, "echo no license >&2; exit 3"]}}
-- tasks/2.yaml --
id: hangs
inputs: {prompt: x}
mcp_servers: {silent: {command: sh, args: [-c, "echo still loading >&2; echo not JSON; exec sleep 60"], startup_timeout: 1}}
-- tasks/3.yaml --
id: missing
inputs: {prompt: x}
mcp_servers: {absent: {command: no-such-program}}
-- tasks/4.yaml --
id: works
inputs: {prompt: x}
`)
	c := p.run(exitInfra, "--infra-retries", "0")
	tests := []struct {
		task, server string
		reason       []string
		stderr       string
	}{
		{"exits", "broken", []string{"broken", "no license"}, "no license"},
		{"hangs", "silent", []string{"silent", "1s"}, "still loading"},
		{"missing", "absent", []string{"absent", "no-such-program"}, ""},
	}
	for _, test := range tests {
		run := p.runOf(test.task)
		want := evidence.ClassInfra
		if test.task == "exits" { // which is the server's own doing
			want = evidence.ClassServerError
		}
		if run.Outcome != want {
			t.Errorf("%s: %s, want %s", test.task, run.Outcome, want)
		}
		for _, part := range test.reason {
			if !strings.Contains(run.Message, part) || !strings.Contains(c.stdout.String(), part) {
				t.Errorf("%s: reason %q, or stdout, lacks %q", test.task, run.Message, part)
			}
		}
		if kept := p.read("run", "trials", test.task, "1", "servers", test.server+".stderr"); !strings.Contains(kept, test.stderr) {
			t.Errorf("%s: kept stderr is %q", test.task, kept)
		}
		record, err := p.trial(test.task).Trial()
		if err != nil || !record.AgentStart.IsZero() {
			t.Errorf("%s: the agent was started: %+v, %v", test.task, record, err)
		}
	}
	if run := p.runOf("works"); run.Outcome != evidence.ClassPass {
		t.Errorf("the task without a server: %s", run.Outcome)
	}
	if s := p.results().Summary; s.Succeeded != 1 {
		t.Errorf("summary %+v", s)
	}
}

func TestImageMissing(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, isolation: {network: airtight}, executor: mock, mcp_servers: {absent: {image: "waza-nobody.invalid/absent:1"}}}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}}
`)
	c := p.run(exitInfra, "--infra-retries", "0")
	said := c.stdout.String() + c.stderr.String()
	if !strings.Contains(said, `image "waza-nobody.invalid/absent:1" is not on the engine and cannot be pulled`) {
		t.Errorf("waza said %s", said)
	}
}

// With fail_fast nothing is started once a trial did not pass.
func TestFailFast(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, isolation: {network: airtight}, executor: script, fail_fast: true}
graders: [{type: text, name: said, config: {contains: [done]}}]
tasks: [tasks/*.yaml]
-- tasks/1.yaml --
{id: first, inputs: {prompt: x}, script: [{say: done}]}
-- tasks/2.yaml --
{id: second, inputs: {prompt: x}, script: [{say: no}]}
-- tasks/3.yaml --
{id: third, inputs: {prompt: x}, script: [{say: done}]}
`)
	p.run(exitFailed)
	if p.exists("run", "trials", "third") {
		t.Error("the third task was started")
	}
	var statuses []string
	for _, task := range p.results().Tasks {
		statuses = append(statuses, task.TestID+" "+string(task.Status))
	}
	if diff := cmp.Diff([]string{"first passed", "second failed", "third n/a"}, statuses); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A script tests its servers: a call that does not end as expected fails the trial, in the server's words.
func TestScriptTestsItsServers(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: script
  mcp_servers: {it: {command: sh, args: [server.sh]}}
tasks: [tasks/*.yaml]
-- server.sh --
while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([^,}]*\).*/\1/p')
  case $line in
  *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"it","version":"1"}}}' ;;
  *'"name":"works"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"content":[]}}' ;;
  *'"name":"throws"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"isError":true,"content":[{"type":"text","text":"the disk is full"}]}}' ;;
  *'"name":"dies"'*) exit 3 ;;
  *notifications*) ;;
  *) echo '{"jsonrpc":"2.0","id":'$id',"error":{"code":-32601,"message":"no such thing here"}}' ;;
  esac
done
-- tasks/1.yaml --
{id: throws, inputs: {prompt: x}, script: [{call: {server: it, tool: throws}}]}
-- tasks/2.yaml --
{id: gone, inputs: {prompt: x}, script: [{call: {server: it, tool: gone}}]}
-- tasks/3.yaml --
{id: works, inputs: {prompt: x}, script: [{call: {server: it, tool: works, expect: tool_error}}]}
-- tasks/4.yaml --
{id: lists, inputs: {prompt: x}, script: [{tools: {server: it}}]}
-- tasks/5.yaml --
{id: dies, inputs: {prompt: x}, script: [{call: {server: it, tool: works}}, {call: {server: it, tool: dies}}]}
-- tasks/6.yaml --
{id: expected, inputs: {prompt: x}, script: [{call: {server: it, tool: dies, expect: transport_error}}]}
-- tasks/7.yaml --
{id: own, inputs: {prompt: x}, script: [{run: {command: [sh, -c, "exit 3"]}}]}
`)
	p.startLocal().wait(exitFailed)
	for task, want := range map[string]struct {
		outcome evidence.Class
		said    string
	}{
		"throws": {evidence.ClassFail, "got tool_error (if that is right, write expect: tool_error): the disk is full"}, "gone": {evidence.ClassFail, "expect: protocol_error): no such thing here"},
		"works": {evidence.ClassFail, "expected tool_error of works on it, got ok"}, "lists": {evidence.ClassFail, "no such thing here"},
		"dies": {evidence.ClassServerError, "exited with code 3"}, "expected": {evidence.ClassPass, ""}, "own": {evidence.ClassAgentError, "got 3"},
	} {
		run := p.runOf(task)
		if run.Outcome != want.outcome || !strings.Contains(run.Message, want.said) {
			t.Errorf("%s: %s: %s", task, run.Outcome, run.Message)
		}
	}
	if junit := p.read("run", "junit.xml"); strings.Count(junit, "<failure") != 4 || strings.Count(junit, "<error") != 2 {
		t.Errorf("junit.xml:\n%s", junit)
	}
}
