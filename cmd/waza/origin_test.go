package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
)

// A model asks for a call; then, by the agent's shell, a program makes the same call again.
// The first is the model's, the second nobody's, and grading again says the same.
func TestOriginOfCalls(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: command
  model: stub/any
  models: {stub: {script: model.yaml}}
  isolation: {network: airtight, agent: {image: `+debian+`}}
  agent: {command: ./asker, args: ["http://model/stub/chat/completions", "http://inventory/mcp"], prompt: stdin}
  mcp_servers: {inventory: {image: `+inventory+`}}
graders:
  - {type: behavior, name: frugal, config: {max_tokens: 1000}}
tasks: [task.yaml]
-- task.yaml --
{id: price, inputs: {prompt: What does it cost?, files: [{path: asker}]}}
-- model.yaml --
turns:
  - call: {tool: find_item, arguments: {sku: BRG-6204}}
    usage: {input: 100, output: 10}
  - call: {tool: shell, arguments: {command: curl http://inventory/mcp}}
    usage: {input: 200, output: 20}
  - say: It costs 4.20.
    usage: {input: 300, output: 30}
`, inventory)
	p.compile("fixtures/asker", "./testdata/asker")
	out := p.run(exitOK).stdout.String()
	calls, err := p.trial("price").Calls()
	if err != nil || len(calls) != 2 {
		t.Fatalf("%d calls, %v", len(calls), err)
	}
	type asked struct {
		Origin evidence.Origin
		Turn   int
		Named  bool
	}
	var got []asked
	for _, call := range calls {
		got = append(got, asked{call.Origin, call.Turn, call.ToolUse != ""})
	}
	if diff := cmp.Diff([]asked{{evidence.OriginModel, 1, true}, {evidence.OriginOutOfBand, 0, false}}, got); diff != "" {
		t.Error(diff)
	}
	if want := "models: 3 requests, 600 tokens in, 60 out"; !strings.Contains(out, want) || !strings.Contains(out, "1 call out of band") {
		t.Errorf("want %q in\n%s", want, out)
	}
	before := p.read("run", "trials", "price", "1", evidence.CallsFile)
	p.start("grade", "run").wait(exitOK)
	if after := p.read("run", "trials", "price", "1", evidence.CallsFile); after != before {
		t.Errorf("graded again:\n%s\n%s", before, after)
	}
	shown := p.start("show", "run", "price").wait(exitOK).stdout.String()
	if !strings.Contains(shown, "OUT OF BAND") || !strings.Contains(shown, "asked for by model call 1") {
		t.Error(shown)
	}
}
