package main

import (
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
)

// A program in a container tells of calls in lines of its own kind; none was made. It
// leaves them where the eval says, and something else beside them.
func TestTranscriptOfAProgram(t *testing.T) {
	t.Parallel()
	const lines = `{"type":"assistant","message":{"content":[{"type":"text","text":"Reserving."},{"type":"tool_use","id":"t1","name":"mcp__inventory__reserve_item","input":{"sku":"MTR-2200"}},{"type":"tool_use","id":"t2","name":"Bash","input":{"command":"ls"}}]}}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"R1-4357A51F"}]},{"type":"tool_result","tool_use_id":"t2","content":"none","is_error":true}]}}
`
	for from, script := range map[string]string{
		"stdout":         "echo Starting; cat lines.jsonl",
		"stderr":         "cat lines.jsonl >&2",
		"log/told.jsonl": "mkdir log; cat lines.jsonl > log/told.jsonl; rm lines.jsonl",
	} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: command
  isolation: {network: airtight, agent: {image: `+debian+`}}
  agent:
    command: sh
    args: ["-c", "`+script+`"]
    prompt: stdin
    transcript:
      from: `+from+`
      format: jsonl
      events:
        - {when: {type: assistant}, each: message.content, where: {type: tool_use}, type: tool_start, id: id, name: name, arguments: input}
        - {when: {type: user}, each: message.content, where: {type: tool_result}, type: tool_end, id: tool_use_id, result: content, error: is_error}
        - {when: {type: assistant}, each: message.content, where: {type: text}, type: message, content: text}
  mcp_servers:
    inventory: {image: `+inventory+`}
tasks: [task.yaml]
graders:
  - {type: behavior, name: none, config: {max_mcp_calls: 0}}
  - {type: tool_constraint, name: own, config: {expect_tools: [{tool: Bash, source: builtin, command_pattern: ls}], reject_tools: [{tool: reserve}]}}
-- task.yaml --
id: told
inputs:
  prompt: Reserve one of MTR-2200.
  files: [{path: lines.jsonl}]
-- fixtures/lines.jsonl --
`+lines, inventory)
			c := p.run(exitOK)
			r := p.runOf("told")
			if n := r.Narration; n == nil || n.Reported != 1 || len(n.Unbacked) != 1 || n.Unbacked[0].Name != "mcp__inventory__reserve_item" || len(n.Gaps) != 0 {
				t.Errorf("narration %+v", n)
			}
			if r.Outcome != evidence.ClassPass || !strings.Contains(c.stdout.String(), "told/1 the agent reports 1 call that was never made: mcp__inventory__reserve_item") {
				t.Errorf("%s: %s", r.Outcome, c.stdout.String())
			}
		})
	}
}
