package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
)

// TestAbandonedCall checks that a call which the agent left unanswered counts as made, and not
// as an error of the server.
func TestAbandonedCall(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  timeout_seconds: 6
  executor: script
  mcp_servers:
    inventory:
      command: sh
      args: ["-c", "sed -u -e s,server/discover,server/old, -e '/tools.call/d' | inventory"] # as before 2026-07-28
graders:
  - {type: mcp_compliance, name: no_writes, config: {server: inventory, match: effects, max_tool_errors: 0}}
  - {type: behavior, name: no_errors, config: {mcp_servers: {inventory: {max_errors: 0}}}}
tasks: [task.yaml]
-- task.yaml --
id: x
inputs: {prompt: x}
script:
  - call: {server: inventory, tool: reserve_item, arguments: {sku: BRG-6204, quantity: 1}}
`)
	p.startLocal().wait(exitFailed)
	if got := p.outcomes("x"); !slices.Equal(got, []string{"inventory reserve_item abandoned"}) {
		t.Errorf("the call ended as %q", got)
	}
	run := p.runOf("x")
	if server := run.Servers[0]; run.Outcome != evidence.ClassTimeout || server.Lost != 0 || server.Outcomes[evidence.OutcomeAbandoned] != 1 {
		t.Errorf("the run is %s, and the server %+v", run.Outcome, server)
	}
	p.want("x", "no_writes", evidence.VerdictFail, `found call 1 ("reserve_item" of inventory: abandoned)`)
	p.want("x", "no_errors", evidence.VerdictPass, "")
	show := p.start("show", "run", "x")
	show.wait(exitOK)
	if !strings.Contains(show.stdout.String(), "reserve_item of inventory  abandoned") {
		t.Errorf("show says\n%s", show.stdout.String())
	}
}
