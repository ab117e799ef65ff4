package main

import (
	"slices"
	"strings"
	"testing"
)

// Mock servers answer from the eval's table behind the same proxy, in place of servers of
// their names, and what they have no answer for is told.
func TestMocks(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: script
  mcp_servers: {crm: {url: "https://crm.invalid/mcp"}}
mcp_mocks:
  - name: crm
    fixtures: ./mocks
    tools:
      get_account:
        description: Look up one account.
        input_schema: {type: object, properties: {id: {type: string}}, required: [id]}
        responses:
          - match: {id: A-1}
            return: {name: Contoso}
          - match_regex: {id: "^X-"}
            error: no such account
          - match: {id: later}
            sequence: [{error: busy}, {return: now, delay_ms: 20}]
graders:
  - {type: mcp_compliance, name: asked, config: {server: crm, expect_tools_used: [get_account, count, list_all], errors: {expected: [{tool: get_account}]}}}
tasks: [task.yaml]
-- mocks/count.json --
{"responses": [{"return": 3}]}
-- mocks/more.json --
{"tools": {"list_all": {"responses": [{"match_schema": {"maxProperties": 0}, "return": ["A-1"]}]}}}
-- task.yaml --
id: x
inputs: {prompt: x}
script:
  - call: {server: crm, tool: get_account, arguments: {id: A-1}}
    as: found
  - call: {server: crm, tool: get_account, arguments: {id: X-1}, expect: tool_error}
    as: missing
  - call: {server: crm, tool: get_account, arguments: {id: B-1}, expect: tool_error}
  - call: {server: crm, tool: get_account, arguments: {id: later}, expect: tool_error}
  - call: {server: crm, tool: get_account, arguments: {id: later}}
    as: later
  - call: {server: crm, tool: count}
    as: count
  - call: {server: crm, tool: list_all}
  - say: "{{ found.json.name }}, {{ missing.text }}, {{ count.text }}, {{ later.text }}"
expected: {output_contains: ['Contoso, no such account, 3, "now"']}
`)
	c := p.startLocal()
	c.wait(exitOK)
	server := p.results().Tasks[0].Runs[0].Servers[0]
	reported := `no response of the mock matches the call of get_account with {"id":"B-1"}`
	if !server.Mocked || !slices.Equal(server.Unmatched, []string{reported}) {
		t.Errorf("the server is %+v", server)
	}
	if !strings.Contains(c.stdout.String(), `x/1 mock server "crm": `+reported) {
		t.Errorf("it does not say that a call was not matched:\n%s", c.stdout.String())
	}
	plan := p.start("run", "eval.yaml", "--dry-run")
	plan.wait(exitOK)
	if !strings.Contains(plan.stdout.String(), `crm, a mock with the tools ["count" "get_account" "list_all"]`) {
		t.Errorf("the plan is\n%s", plan.stdout.String())
	}
	p.write("mocks/broken.json", `{"tools": {"count": {"responses": [{"retrun": 1}]}}}`)
	broken := p.start("run", "eval.yaml", "--dry-run")
	broken.wait(exitUsage)
	if !strings.Contains(broken.stderr.String(), `did you mean "return"?`) {
		t.Error(broken.stderr.String())
	}
}
