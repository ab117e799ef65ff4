package main

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
)

// A server that misbehaves has an outcome that says so, and no other trial's
// changes by it.
func TestAttacks_HostileServers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		how     string
		config  string // more fields of the server
		outcome evidence.Outcome
		class   evidence.Class
		event   string // a kind, and what its message says
		says    string
	}{
		{how: "behave", outcome: evidence.OutcomeOK, class: evidence.ClassPass},
		{how: "noise", outcome: evidence.OutcomeOK, class: evidence.ClassPass, event: "stdout_noise", says: "{not JSON"},
		{how: "large", outcome: evidence.OutcomeOK, class: evidence.ClassPass},
		{how: "large", config: `max_message: 10m, `, outcome: evidence.OutcomeTransportError, class: evidence.ClassFail, event: "limit", says: "over the limit"},
		{how: "invalid-utf8", outcome: evidence.OutcomeOK, class: evidence.ClassPass},
		{how: "close", outcome: evidence.OutcomeTransportError, class: evidence.ClassFail, event: "server_exit", says: "code 3"},
		{how: "wrong-id", config: `timeout: 1000, `, outcome: evidence.OutcomeTimeout, class: evidence.ClassFail},
		{how: "stderr-flood", outcome: evidence.OutcomeOK, class: evidence.ClassPass, event: "limit", says: "stderr"},
		{how: "silent", config: `timeout: 1000, `, outcome: evidence.OutcomeTimeout, class: evidence.ClassFail},
		{how: "exit", class: evidence.ClassServerError, event: "health", says: "goodbye"},
	}
	var tasks strings.Builder
	for i, test := range tests {
		fmt.Fprintf(&tasks, `
-- tasks/%02d.yaml --
id: t%d
inputs: {prompt: x}
mcp_servers: {it: {%sargs: [%s]}}
script:
  - call: {server: it, tool: poke, expect: %s}
  - say: over
`, i, i, test.config, test.how, cmp.Or(test.outcome, "any"))
	}
	p := newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  parallel: true
  workers: 3
  executor: script
  mcp_servers:
    it: {image: "debian:bookworm-slim", command: /srv/hostile, files: {/srv/hostile: hostile}}
graders:
  - {type: mcp_compliance, name: fine, config: {server: it, expect_tools_used: [poke], max_tool_errors: 0}}
tasks: [tasks/*.yaml]
`+tasks.String(), "debian:bookworm-slim")
	p.compile("hostile", "./testdata/hostile")
	p.run(exitFailed) // one server does not start
	all := p.results()
	for i, test := range tests {
		task := fmt.Sprintf("t%d", i)
		t.Run(test.how+" "+test.config, func(t *testing.T) {
			run := firstRun(t, all, task)
			if run.Outcome != test.class {
				t.Errorf("%s (%s), want %s", run.Outcome, run.Message, test.class)
			}
			calls, err := p.trial(task).Calls()
			switch {
			case test.outcome == "":
				if len(calls) > 0 {
					t.Errorf("calls %+v", calls)
				}
			case err != nil || len(calls) != 1 || calls[0].Outcome != test.outcome:
				t.Errorf("calls %.500v, %v; want one with outcome %s", calls, err, test.outcome)
			}
			events, err := p.trial(task).Events()
			if err != nil {
				t.Fatal(err)
			}
			found := test.event == ""
			for _, e := range events {
				found = found || e.Kind == test.event && strings.Contains(e.Message, test.says)
			}
			if !found {
				t.Errorf("no event %s that says %q in %.2000v", test.event, test.says, events)
			}
		})
	}
}
