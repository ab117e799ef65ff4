package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
)

const playedCommands = `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: command
  agent: {command: sh, args: ["-c", "eval \"$1\"", sh]}
command_mocks:
  - name: az
    expect_calls: 4
    responses:
      - {args: [account, show], stdout: {name: Contoso}, environment: {MODE: other}}
      - {args: [account, show], stdout: {name: Fabrikam}, workdir: sub}
      - {args_regex: [group, "show|list", "[a-z]+"], fixture: groups.txt}
      - {args: [deploy], stderr: "no quota\n", exit_code: 7}
tasks: [tasks/*.yaml]
-- groups.txt --
one group
-- tasks/1.yaml --
id: plays
inputs:
  prompt: |
    mkdir sub; cd sub; az account show; echo; az group list x; az deploy || echo "exit $?"
    az group show UPPER 2>&1 || echo "exit $?"
graders:
  - type: text
    name: said
    config: {contains: ["{\"name\":\"Fabrikam\"}\none group\nexit 7\n"]}
-- tasks/2.yaml --
id: once
inputs: {prompt: "az deploy || true"}
-- tasks/3.yaml --
id: own
command_mocks: [{name: gh, responses: [{args: [], stdout: hello}]}]
inputs: {prompt: "gh; az deploy 2>/dev/null || echo no az"}
graders: [{type: text, name: said, config: {contains: [hello, no az]}}]
`

// Programs of command_mocks answer from the eval's table, each invocation is on the runner's
// record, and what no response is for fails loudly.
func TestCommandMocks(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, playedCommands)
	checkPlayed(t, p)
	for wrong, want := range map[string]string{
		"{name: a/b, responses: [{args: []}]}":                                   "not a valid name of a program",
		"{name: x, responses: []}":                                               "give it one at least",
		"{name: x, responses: [{stdout: x}]}":                                    "either args or args_regex",
		"{name: x, responses: [{args_regex: ['(']}]}":                            "args_regex[0]",
		"{name: x, responses: [{args: [], fixture: ../x}]}":                      "does not lead out",
		"{name: x, responses: [{args: [], fixture: groups.txt, stdout: x}]}":     "stdout and a fixture",
		"{name: x, responses: [{args: [], exit_code: 256}]}":                     "255",
		"{name: x, responses: [{args: []}]}, {name: x, responses: [{args: []}]}": "appears twice",
	} {
		p.write("wrong.yaml", "name: x\nconfig: {executor: mock}\ncommand_mocks: ["+wrong+"]\ntasks: [tasks/2.yaml]\n")
		c := p.start("run", "wrong.yaml", "--dry-run")
		c.wait(exitUsage)
		if !strings.Contains(c.stderr.String(), want) {
			t.Errorf("%s: it does not say %q:\n%s", wrong, want, c.stderr.String())
		}
	}
}

// So it is in containers, on both kinds of network.
func TestCommandMocksInContainers(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"bridge", "airtight"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			archive := strings.Replace(playedCommands, "  executor: command\n", "  executor: command\n  isolation: {network: "+network+", agent: {image: "+debian+"}}\n", 1)
			checkPlayed(t, newProject(t, archive), "--isolate")
		})
	}
}

func checkPlayed(t *testing.T, p *project, flags ...string) {
	t.Helper()
	c := p.startLocal(flags...)
	c.wait(exitFailed)
	plays, once, own := p.runOf("plays"), p.runOf("once"), p.runOf("own")
	want := []evidence.CommandInvocation{
		{Command: "az", Args: []string{"account", "show"}, ResponseIndex: 1},
		{Command: "az", Args: []string{"group", "list", "x"}, ResponseIndex: 2},
		{Command: "az", Args: []string{"deploy"}, ExitCode: 7, ResponseIndex: 3},
		{Command: "az", Args: []string{"group", "show", "UPPER"}, ExitCode: 127, ResponseIndex: -1},
	}
	if diff := cmp.Diff(want, plays.Commands); diff != "" || plays.Outcome != evidence.ClassPass {
		t.Errorf("%s: %s: %s\n%s", plays.Outcome, plays.Message, diff, plays.FinalOutput)
	}
	if said := `no response of the mock of az matches the arguments ["group" "show" "UPPER"]`; !strings.Contains(plays.FinalOutput, said) || !strings.Contains(plays.FinalOutput, "exit 127") {
		t.Errorf("the agent is not told %q:\n%s", said, plays.FinalOutput)
	}
	if said := `plays/1 mock of command "az": no response matches ["group" "show" "UPPER"]`; !strings.Contains(c.stdout.String(), said) {
		t.Errorf("it does not say %q:\n%s", said, c.stdout.String())
	}
	if once.Outcome != evidence.ClassFail || once.Message != `command "az" was called 1 time, and is expected to be called 4 times` {
		t.Errorf("%s: %s", once.Outcome, once.Message)
	}
	if own.Outcome != evidence.ClassPass || len(own.Commands) != 1 {
		t.Errorf("%s: %s, %+v\n%s", own.Outcome, own.Message, own.Commands, own.FinalOutput)
	}
}
