package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
)

const answeringEval = `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  timeout_seconds: 30
  executor: script
  mcp_servers: {lab: {command: python3, args: [lab.py]}}
tasks: [tasks/*.yaml]
-- tasks/accepted.yaml --
id: accepted
inputs: {prompt: ""}
answers:
  lab:
    elicitation:
      result: {action: accept, content: {colour: red}}
      schema: {properties: {message: {pattern: colour}}, required: [requestedSchema]}
    sampling: {result: {role: assistant, model: m, content: {type: text, text: hi}}}
script:
  - call: {server: lab, tool: ask}
    as: asked
  - call: {server: lab, tool: sample}
    as: sampled
  - say: "{{ asked.text }}, {{ sampled.json ?? sampled.text }}"
graders:
  - {type: text, name: said, config: {contains: ["colour red, model said"]}}
  - {type: mcp_compliance, name: asked, config: {server_requests: {expect: [elicitation, sampling], reject: [roots]}}}
-- tasks/declined.yaml --
id: declined
inputs: {prompt: ""}
answers: {lab: {elicitation: decline, sampling: decline}}
script:
  - call: {server: lab, tool: ask, expect: tool_error}
  - call: {server: lab, tool: sample, expect: tool_error}
graders: [{type: mcp_compliance, name: asked, config: {server_requests: {reject: [sampling]}}}]
-- tasks/unmet.yaml --
id: unmet
inputs: {prompt: ""}
answers: {lab: {elicitation: {result: {action: accept}, schema: {properties: {message: {const: Which size?}}}}}}
script:
  - call: {server: lab, tool: ask, expect: any}
  - say: not reached
`

const unmetMessage = `MCP server "lab" requested elicitation with params that do not fit answers.lab.elicitation.schema: /message: value must be 'Which size?'`

// A task answers what servers ask of their client. The runner has a record of each answer, graders see
// the requests, and one that is not as the task says fails the trial.
func TestAnswers(t *testing.T) {
	t.Parallel()
	dockertest.Tool(t, "python3")
	p := newLocalProject(t, answeringEval)
	checkAnswers(t, p)
}

// So it is in containers.
func TestAnswersInContainers(t *testing.T) {
	t.Parallel()
	archive := strings.Replace(answeringEval, "  mcp_servers: {lab: {", "  isolation: {network: airtight}\n  mcp_servers: {lab: {image: waza-tools, files: {/data/lab.py: lab.py}, ", 1)
	checkAnswers(t, newProject(t, strings.Replace(archive, "args: [lab.py]", "args: [/data/lab.py]", 1), "waza-tools"), "--isolate")
}

func checkAnswers(t *testing.T, p *project, flags ...string) {
	t.Helper()
	lab, err := os.ReadFile(filepath.Join("testdata", "situations", "lab.py"))
	if err != nil {
		t.Fatal(err)
	}
	p.write("lab.py", string(lab))
	p.startLocal(flags...).wait(exitFailed)
	if accepted := p.runOf("accepted"); accepted.Outcome != evidence.ClassPass {
		t.Errorf("%s: %s\n%s", accepted.Outcome, accepted.Message, accepted.FinalOutput)
	}
	if said := p.answersTo("accepted"); len(said) != 2 || !strings.Contains(said[0], `Which colour?`) || !strings.HasSuffix(said[0], `is answered {"action":"accept","content":{"colour":"red"}}`) {
		t.Errorf("answers on record: %q", said)
	}
	declined := p.runOf("declined")
	if why := declined.Validations["asked"].Feedback; declined.Outcome != evidence.ClassFail || !strings.Contains(why, "found sampling by lab in frame") {
		t.Errorf("%s: %s", declined.Outcome, why)
	}
	if said := p.answersTo("declined"); len(said) != 2 || !strings.HasSuffix(said[0], `is answered {"action":"decline"}`) || !strings.HasSuffix(said[1], "is answered error -1: the user rejected the request") {
		t.Errorf("answers on record: %q", said)
	}
	unmet := p.runOf("unmet")
	if unmet.Outcome != evidence.ClassFail || unmet.Message != "script[0].call: unexpected outcome: "+unmetMessage || unmet.FinalOutput != "" {
		t.Errorf("%s: %s\n%s", unmet.Outcome, unmet.Message, unmet.FinalOutput)
	}
}

// answersTo returns what the record of a task's trial says of answers to servers.
func (p *project) answersTo(task string) (said []string) {
	p.t.Helper()
	events, err := p.trial(task).Events()
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range slices.DeleteFunc(events, func(e evidence.Event) bool { return e.Kind != evidence.EventAnswer || e.Where != "lab" }) {
		said = append(said, e.Message)
	}
	return said
}

// The agent llm gets the same answers. Its trial fails too where a request is not as the task says,
// whatever the model does.
func TestAnswersOfLLM(t *testing.T) {
	t.Parallel()
	dockertest.Tool(t, "python3")
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  timeout_seconds: 30
  executor: llm
  models: {stub: {script: model.yaml}}
  mcp_servers: {lab: {command: python3, args: [lab.py]}}
tasks: [tasks/*.yaml]
-- model.yaml --
turns:
  - call: {tool: ask, server: lab, arguments: {}}
  - say: "It says {{ result }}."
-- tasks/accepted.yaml --
id: accepted
inputs: {prompt: "Which colour?"}
answers: {lab: {elicitation: {result: {action: accept, content: {colour: red}}}}}
expected: {output_contains: [colour red]}
-- tasks/unmet.yaml --
id: unmet
inputs: {prompt: "Which colour?"}
answers: {lab: {elicitation: {result: {action: accept}, schema: {properties: {message: {const: Which size?}}}}}}
`)
	lab, err := os.ReadFile(filepath.Join("testdata", "situations", "lab.py"))
	if err != nil {
		t.Fatal(err)
	}
	p.write("lab.py", string(lab))
	p.startLocal().wait(exitFailed)
	if accepted := p.runOf("accepted"); accepted.Outcome != evidence.ClassPass {
		t.Errorf("%s: %s\n%s", accepted.Outcome, accepted.Message, accepted.FinalOutput)
	}
	if unmet := p.runOf("unmet"); unmet.Outcome != evidence.ClassFail || unmet.Message != unmetMessage {
		t.Errorf("%s: %s\n%s", unmet.Outcome, unmet.Message, unmet.FinalOutput)
	}
}
