package main

import (
	"strings"
	"testing"
)

// A server keeps the name that the eval gives it, whatever its host name is.
func TestServerNames(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: script
  mcp_servers:
    My_Inv: {image: waza-examples/inventory}
    Stock: {image: waza-examples/inventory}
graders:
  - {type: mcp_compliance, name: used, config: {server: My_Inv, expect_tools_used: [find_item]}}
  - {type: behavior, name: named, config: {required_tools: [My_Inv-find_item], forbidden_mcp_servers: [Stock]}}
tasks: [task.yaml]
-- task.yaml --
id: x
inputs: {prompt: x}
script:
  - call: {server: My_Inv, tool: find_item, arguments: {sku: BRG-6204}}
`, inventory)
	p.run(exitOK)
	if record := p.trialRecord("x"); !strings.Contains(string(record.Plan), `\"My_Inv\"`) || !strings.Contains(string(record.Plan), `http://my-inv/mcp`) {
		t.Errorf("the plan is %s", record.Plan)
	}
	p.write("eval.yaml", strings.Replace(p.read("eval.yaml"), "    Stock:", "    my-inv: {image: waza-examples/inventory}\n    Stock:", 1))
	c := p.start("run", "--isolate", "--dry-run", "eval.yaml")
	c.wait(exitUsage)
	if want := `servers "My_Inv" and "my-inv" would both have the host name my-inv; rename one`; !strings.Contains(c.stderr.String(), want) {
		t.Errorf("it says %s", c.stderr.String())
	}
}
