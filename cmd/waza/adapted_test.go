package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/images"
)

// realServers is an eval with tasks of examples/real-servers for an agent that asks a model. A
// scripted model makes the calls that the script agent makes there.
const realServers = `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  timeout_seconds: 600
  parallel: true
  workers: 2
  executor: EXECUTOR
  model: stub/some-model
  models: {stub: {script: model.yaml}}
  isolation:
    server_image: waza-examples/npm-servers
    network: NETWORK
  mcp_servers:
    files: {command: mcp-server-filesystem, args: [/data], files: {/data/notes.txt: notes.txt}}
    everything: {command: mcp-server-everything}
tasks: [tasks/*.yaml]
graders:
  - {type: mcp_compliance, name: honest, config: {wire: {unbacked_claims: fail, unreported_calls: fail}}}
-- notes.txt --
The harbour opens at six.
-- model.yaml --
conversations:
  - when: {prompt_contains: echo a word}
    turns:
      - call: {server: everything, tool: echo, arguments: {message: "héllo wörld"}}
      - call: {server: everything, tool: get-sum, arguments: {a: 2, b: 40}}
      - call: {server: everything, tool: trigger-long-running-operation, arguments: {duration: 1, steps: 2}}
      - say: "{{ results[0] }} / {{ results[1] }}"
`

// realTask returns a task of examples/real-servers without the steps for executor script.
func realTask(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile("../../examples/real-servers/tasks/" + file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(data), "\nscript:\n")
	for _, next := range []string{"\nexpected:\n", "\ngraders:\n"} {
		if _, after, found := strings.Cut(rest, next); found {
			return before + next + after
		}
	}
	t.Fatalf("%s has no graders behind its script", file)
	return ""
}

func newAgentProject(t *testing.T, executor, network string) *project {
	t.Helper()
	archive := strings.NewReplacer("EXECUTOR", executor, "NETWORK", network).Replace(realServers)
	p := newProject(t, archive, npmServers, images.DefaultNPM)
	p.write("tasks/everything.yaml", realTask(t, "3-everything.yaml"))
	return p
}

// TestAgents_Airtight runs an agent on an airtight network, where its servers and model have
// loopback addresses, and one server starts more slowly than the agent waits by default.
// TestAgents_Every uses a bridge.
func TestAgents_Airtight(t *testing.T) {
	t.Parallel()
	p := newAgentProject(t, "claude", "airtight")
	const soon, slow = "command: mcp-server-filesystem, args: [/data]", `command: sh, args: [-c, "sleep 31; exec mcp-server-filesystem /data"]`
	eval := p.read("eval.yaml")
	if !strings.Contains(eval, soon) {
		t.Fatalf("no %s in\n%s", soon, eval)
	}
	p.write("eval.yaml", strings.Replace(eval, soon, slow, 1))
	p.run(exitOK)
	checkAgentTrial(t, p, "everything", "echo", "get-sum", "trigger-long-running-operation")
}

// checkAgentTrial checks a trial's record: the order of calls, that all calls of the transcript
// are on the wire, and the model's requests.
func checkAgentTrial(t *testing.T, p *project, task string, tools ...string) {
	t.Helper()
	r := p.runOf(task)
	if r.Outcome != evidence.ClassPass {
		t.Errorf("%s: %s", task, r.Outcome)
	}
	if n := r.Narration; n == nil || n.Reported != len(tools) || len(n.Sentences) != 0 || len(n.Gaps) != 0 {
		t.Errorf("%s: narration %+v", task, n)
	}
	wire, err := capture.Calls(p.trial(task).Frames())
	if err != nil {
		t.Fatal(err)
	}
	var called []string
	for _, c := range wire.Calls {
		called = append(called, c.Tool)
	}
	if strings.Join(called, " ") != strings.Join(tools, " ") {
		t.Errorf("%s: called %q", task, called)
	}
	if asked := strings.Count(p.read("run", "trials", task, "1", "models.jsonl"), "\n"); asked <= len(tools) {
		t.Errorf("%s: %d request(s) to the model", task, asked)
	}
}

// TestAgents_AlteredTranscript checks that an altered transcript is detected. The agent is the real
// program, whose output is changed to name another tool.
func TestAgents_AlteredTranscript(t *testing.T) {
	t.Parallel()
	const name, says, altered = "gemini", `"tool_name":"mcp_everything_get-sum"`, `"tool_name":"mcp_everything_echo"`
	p := newAgentProject(t, name, "airtight")
	p.start("images", "build", name).wait(exitOK)
	p.write("altered.yaml", alteredAdapter(t, name, says, altered))
	p.write("eval.yaml", strings.Replace(p.read("eval.yaml"), "executor: "+name, "executor: command\n  agent: {adapter: altered.yaml}", 1))
	p.run(exitFailed)
	n := p.runOf("everything").Narration
	if n == nil || len(n.Unbacked) != 1 || n.Unbacked[0].Name != "mcp_everything_echo" || len(n.Unreported) != 1 {
		t.Errorf("narration %+v", n)
	}
}

// alteredAdapter returns a built-in agent's adapter that replaces a text in its stdout.
func alteredAdapter(t *testing.T, name, says, altered string) string {
	t.Helper()
	a, _ := adapter.Builtin(name)
	image, err := a.Build(images.Bases{}, adapter.Lock())
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("../../agents/adapter/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?m)^(npm|setup): .*\n`).ReplaceAllString(string(data), "")
	return strings.Replace(text, "command:\n  - "+name+"\n",
		"image: "+image.Tag()+"\ncommand:\n  - sh\n  - -c\n  - "+name+` "$@" | sed 's/`+says+`/`+altered+`/'`+"\n  - "+name+"\n", 1)
}
