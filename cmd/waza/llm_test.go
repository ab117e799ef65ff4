package main

import (
	"os"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
)

// bothWays runs a test's project in containers and without isolation.
func bothWays(t *testing.T, archive string, test func(t *testing.T, p *project, run func(code int) *command)) {
	t.Run("isolated", func(t *testing.T) {
		t.Parallel()
		p := newProject(t, archive, inventory)
		test(t, p, func(code int) *command { return p.run(code) })
	})
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		p := unpackProject(t, archive)
		p.compile("inventory", "../../examples/mcp-eval/server")
		p.env = append(p.env, "PATH="+p.dir+":"+os.Getenv("PATH"))
		test(t, p, func(code int) *command { return p.start("run", "eval.yaml", "--run-dir", "run").wait(code) })
	})
}

// A model's tools work in the agent's container; its skills are where agents look for them, and
// are no part of what it leaves, whatever it does with them.
func TestLLMAtWork(t *testing.T) {
	t.Parallel()
	bothWays(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: llm
  isolation: {network: airtight, agent: {image: "debian:bookworm-slim", workdir: sub}}
  models: {stub: {script: model.yaml}}
  skill_directories: [skills/tides, more]
  disabled_skills: [ebb]
  mcp_servers: {inventory: {image: waza-examples/inventory, command: inventory}}
graders:
  - {type: skill_invocation, name: read, config: {required_skills: [tides], mode: exact_match}}
  - {type: mcp_compliance, name: honest, config: {server: inventory, wire: {unbacked_claims: fail, unreported_calls: fail}}}
  - type: file
    name: nothing_of_ours
    config: {must_exist: [sub/kept.txt], must_not_exist: [.waza, .waza/skills, .mcp.json]}
tasks: [task.yaml]
-- skills/tides/SKILL.md --
---
name: tides
description: When the tide is high.
---
Ask the moon.
-- skills/tides/run.sh --
echo from the skill
-- skills/tides/.hidden --
left out
-- more/ebb/SKILL.md --
---
name: ebb
description: Never.
---
-- task.yaml --
id: tide
inputs: {prompt: Is it high?, files: [{path: sub/kept.txt, content: x}]}
graders:
  - {type: text, name: answer, config: {contains: ["from the skill", "SKILL.md run.sh", "1273"]}}
-- model.yaml --
turns:
  - call: {tool: skill, arguments: {skill: tides}}
  - calls:
      - {tool: run_command, arguments: {command: 'pwd | sed "s,.*/,," && ls ../.waza/skills && ls -A ../.waza/skills/tides | xargs echo && sh "$WAZA_SKILLS/tides/run.sh"'}}
      - {tool: find_item, server: inventory, arguments: {sku: BRG-6204}}
  - call: {tool: run_command, arguments: {command: "echo changed > ../.waza/skills/tides/SKILL.md; ln -s \"$WAZA_SKILLS\" mine"}}
  - say: "{{ results[1] }} {{ results[2].price_cents }}"
`, func(t *testing.T, p *project, run func(int) *command) {
		run(exitOK)
		dir := p.trial("tide")
		record, err := dir.Trial()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(record.FinalOutput, "sub\ntides\nSKILL.md run.sh\nfrom the skill\n") {
			t.Errorf("it said %q", record.FinalOutput)
		}
		for _, name := range []string{"skills/tides/SKILL.md", "skills/tides/run.sh", "model.yaml"} {
			if p.record().Inputs[name] == "" {
				t.Errorf("run.json has no digest of %s: %v", name, p.record().Inputs)
			}
		}
		calls, err := dir.Calls()
		if err != nil || len(calls) != 1 || calls[0].Origin != evidence.OriginModel || calls[0].Turn != 2 {
			t.Errorf("calls %+v, %v", calls, err)
		}
	})
}

// At a limit the agent ends with a sentence, and the trial is agent_error.
func TestLLMLimits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config string
		reason evidence.Reason
		says   string
	}{
		"turns":  {"llm: {max_turns: 2}", evidence.ReasonExitCode, "the model is not done: it has had its 2 turns (config.llm.max_turns) and asks for tools again"},
		"budget": {"model_limits: {requests: 2}", evidence.ReasonBudget, "the model answers 429: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothWays(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: llm
  `+test.config+`
  models: {stub: {script: model.yaml}}
  mcp_servers: {inventory: {image: waza-examples/inventory, command: inventory}}
tasks: [task.yaml]
-- task.yaml --
id: endless
inputs: {prompt: go on}
-- model.yaml --
turns:
  - {call: {tool: list_items, server: inventory, arguments: {}}}
  - {say: Once more., call: {tool: list_items, server: inventory, arguments: {}}}
  - {call: {tool: list_items, server: inventory, arguments: {}}}
  - {say: done}
`, func(t *testing.T, p *project, run func(int) *command) {
				run(exitFailed)
				dir := p.trial("endless")
				record, err := dir.Trial()
				if err != nil {
					t.Fatal(err)
				}
				if record.Class != evidence.ClassAgentError || record.Reason != test.reason || record.FinalOutput != "Once more." {
					t.Errorf("ended as %s, %s with %q: %s", record.Class, record.Reason, record.FinalOutput, record.Message)
				}
				if said := p.read("run", "trials", "endless", "1", evidence.StderrFile); !strings.HasPrefix(said, test.says) || strings.Count(said, "\n") != 1 {
					t.Errorf("stderr %q", said)
				}
			})
		})
	}
}

// exploreLLM checks that the server got the calls that the model requested.
func exploreLLM(t *testing.T, p *project) {
	t.Helper()
	for task, turn := range map[string]int{"price": 1, "reserve": 2} {
		calls, err := p.trial(task).Calls()
		if err != nil || len(calls) != 1 || calls[0].Origin != evidence.OriginModel || calls[0].Turn != turn {
			t.Errorf("task %s: calls %+v, %v", task, calls, err)
		}
	}
}
