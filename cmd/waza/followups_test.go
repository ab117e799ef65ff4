package main

import (
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/results"
)

// goesOn is an eval whose agent continues a conversation until it is asked to fail.
const goesOn = `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: command
  agent:
    command: sh
    prompt: stdin
    args: ["-c", "cat > said; echo first: $(cat said)"]
    continue: ["-c", "echo $(cat said) and then $(cat) > more; mv more said; cat said; ! grep fail said >/dev/null"]
tasks: [tasks/*.yaml]
`

// Follow-up prompts are sent one after another to an agent that goes on, until it fails.
func TestFollowUps(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, goesOn+`-- tasks/1.yaml --
id: goes-on
inputs: {prompt: one, follow_up_prompts: [two, three]}
graders:
  - {type: text, name: all, config: {turns: all, contains: ["first: one\none and then two\none and then two and then three"]}}
  - {type: text, name: last, config: {regex_match: ["^one and then two and then three\n$"], not_contains: [first]}}
  - {type: file, name: end, config: {content_patterns: [{path: said, must_match: ["(?m)^one and then two and then three$"]}]}}
-- tasks/2.yaml --
id: stops
inputs: {prompt: one, follow_up_prompts: [fail, three]}
`)
	p.startLocal().wait(exitFailed)
	tasks := p.results().Tasks
	if run := tasks[0].Runs[0]; run.Outcome != evidence.ClassPass {
		t.Errorf("%s: %s", run.Outcome, run.FinalOutput)
	}
	if run := tasks[1].Runs[0]; run.Outcome != evidence.ClassAgentError || strings.Contains(run.FinalOutput, "three") {
		t.Errorf("%s: %s", run.Outcome, run.FinalOutput)
	}
	p.start("run", "eval.yaml", "--executor", "mock", "--run-dir", "mock", "--task", "stops").wait(exitOK)
	if said := p.read("mock", "results.json"); !strings.Contains(said, `"final_output": "Mock response for: three"`) {
		t.Error(said)
	}
	p.write("eval.yaml", strings.Replace(p.read("eval.yaml"), "continue:", "transcript: {from: stdout, format: waza} #", 1))
	c := p.start("run", "eval.yaml", "--dry-run")
	c.wait(exitUsage)
	if !strings.Contains(c.stderr.String(), "say how in config.agent.continue") {
		t.Error(c.stderr.String())
	}
}

// A script waits for prompts, in one session with its servers. One that nothing waits for is
// its failure.
func TestScriptedTurns(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: script
  mcp_servers: {stock: {command: inventory}}
graders: [{type: text, name: said, config: {turns: all, contains: ["first one\nsecond two"]}}]
tasks: [tasks/*.yaml]
-- tasks/1.yaml --
id: waits
inputs: {prompt: one, follow_up_prompts: [two]}
checkpoints:
  - after_turn: 1
    graders:
      - {type: mcp_compliance, name: one_call, config: {server: stock, match: exact, expect_tools_used: [stock_report]}}
      - {type: text, name: said, config: {contains: [first one], not_contains: [second]}}
script:
  - call: {server: stock, tool: stock_report}
  - say: "first {{ prompt }}"
  - await: prompt
    as: next
  - call: {server: stock, tool: stock_report}
  - say: "second {{ next }}"
  - await: prompt
  - fail: nobody is there
-- tasks/2.yaml --
id: deaf
inputs: {prompt: one, follow_up_prompts: [two]}
script: [{say: "first one\nsecond two"}]
`)
	p.startLocal().wait(exitFailed)
	waits, deaf := p.runOf("waits"), p.runOf("deaf")
	if waits.Outcome != evidence.ClassPass || len(waits.Checkpoints) != 1 || waits.Checkpoints[0].Status != results.StatusPassed || waits.SessionDigest.MCPToolCalls != 2 {
		t.Errorf("%s: %s, %+v", waits.Outcome, waits.Message, waits.Checkpoints)
	}
	if deaf.Outcome != evidence.ClassAgentError || !strings.Contains(p.read("run", "trials", "deaf", "1", "agent.stderr"), `is asked "two"`) {
		t.Errorf("%s: %s", deaf.Outcome, deaf.Message)
	}
}
