package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
)

// The prompt reaches a program by argument, file or stdin, and its answer comes
// from stdout or a file.
func TestCommandExecutor(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, agent, want string }{
		{"argument", `{command: echo, args: ["you said:"]}`, "you said: Buy milk"},
		{"argument in place", `{command: sh, args: [-c, 'echo "$0, says $1"', "{{prompt}}", "the agent"]}`, "Buy milk\n, says the agent"},
		{"file", `{command: cat, args: ["{{prompt_file}}"], prompt: file}`, "Buy milk"},
		{"stdin", `{command: sh, args: [-c, "tr a-z A-Z"], prompt: stdin}`, "BUY MILK"},
		{"output from a file", `{command: sh, args: [-c, "mkdir -p out && cat > out/answer.txt; echo noise"], prompt: stdin, output: out/answer.txt}`, "Buy milk"},
		{"environment and directory", `{command: sh, args: [-c, 'echo "$WAZA_TASK $WAZA_MODEL $COLOUR $HOME $(pwd) $(id -un) $(cat "$WAZA_MCP_CONFIG" | wc -l)"'], prompt: file}`,
			"x some-model blue /home/agent /workspace waza 3"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: command
  model: some-model
  agent: `+test.agent+`
  isolation: {network: airtight, agent: {image: "debian:bookworm-slim", env: {COLOUR: blue}}}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: "Buy milk\n"}}
`)
			p.run(exitOK)
			if got := strings.TrimSpace(p.runOf("x").FinalOutput); got != test.want {
				t.Errorf("final output %q, want %q", got, test.want)
			}
		})
	}
}

// Flags choose what is run and where results go.
func TestRunFlags(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, isolation: {network: airtight}, executor: script}
tasks: [tasks/*.yaml]
-- tasks/1.yaml --
{id: alpha, tags: [quick], inputs: {prompt: x}, script: [{say: a}]}
-- tasks/2.yaml --
{id: beta, tags: [slow], inputs: {prompt: x}, script: [{sleep: 60s}]}
`)
	c := p.run(exitOK, "--tags", "qu*", "--trials", "3", "--workers", "3", "-o", "out.json", "--format", "json")
	if diff := cmp.Diff(p.read("run", "results.json"), c.stdout.String()); diff != "" || !json.Valid([]byte(c.stdout.String())) {
		t.Errorf("--format json (-results.json +stdout):\n%s", diff)
	}
	if diff := cmp.Diff(p.read("run", "results.json"), p.read("out.json")); diff != "" {
		t.Errorf("-o (-results.json +out.json):\n%s", diff)
	}
	all := p.results()
	if len(all.Tasks) != 1 || len(all.Tasks[0].Runs) != 3 || all.Config.RunsPerTest != 3 || p.record().Workers != 3 {
		t.Errorf("results %+v", all)
	}

	p.start("run", "--isolate", "--task", "beta", "--timeout", "1s", "--run-dir", "second", "eval.yaml").wait(exitFailed)
	if !strings.Contains(p.read("second", "trials", "beta", "1", "verdicts.json"), `"timeout"`) {
		t.Error("--timeout did not hold")
	}

	p.start("run", "--isolate", "--task", "alpha", "eval.yaml").wait(exitOK)
	found, err := filepath.Glob(p.path(".waza", "runs", "*-"+p.name+"-*", "run.json"))
	if err != nil || len(found) != 1 {
		t.Errorf("default run directory: %q, %v", found, err)
	}
}

// With -v servers' stderr is shown as it comes, each line after its trial and
// server.
func TestVerbose(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: mock
  mcp_servers: {everything: {image: waza-examples/npm-servers, command: mcp-server-everything}}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}}
`, npmServers)
	c := p.run(exitOK, "-v")
	if said := c.stderr.String(); !strings.Contains(said, "[x/1 everything] Starting") {
		t.Errorf("stderr: %s", said)
	}
}

const quotedSecret = `hunter2 "quoted" \ of <the> server`

// A secret reaches its server and is in no file of the run, on neither output,
// even where server and agent do what they can to spread it. A check of an output that
// had it is an error that names it.
func TestSecrets(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: script
  mcp_servers:
    everything:
      image: waza-examples/npm-servers
      command: sh
      args: [-c, 'echo "token: $TOKEN" >&2; echo "$TOKEN"; exec mcp-server-everything']
      env: {TOKEN: "${E2E_TOKEN}"}
tasks: [task.yaml]
-- task.yaml --
id: x
inputs: {prompt: What is the token?}
script:
  - call: {server: everything, tool: get-env}
    as: env
  - call: {server: everything, tool: echo, arguments: {message: "{{ env.json.TOKEN }}"}}
  - say: "It has {{ len(env.json.TOKEN) }} characters and begins with {{ env.json.TOKEN[0:7] }}: {{ env.json.TOKEN }}"
graders:
  - {type: text, name: whole, config: {contains_cs: ["It has 34 characters and begins with hunter2"]}}
`, npmServers)
	p.env = append(p.env, "E2E_TOKEN="+quotedSecret)
	c := p.run(exitFailed, "-v")
	if want := "whole (error): missing evidence: waza removed the secret E2E_TOKEN from the output"; !strings.Contains(c.stdout.String(), want) {
		t.Errorf("stdout lacks %q", want)
	}
	encoded, err := json.Marshal(quotedSecret)
	if err != nil {
		t.Fatal(err)
	}
	hidden := []string{quotedSecret, strings.Trim(string(encoded), `"`), strings.ReplaceAll(quotedSecret, `"`, `\"`), "of <the> server", `of \u003cthe\u003e`}
	check := func(where, text string) {
		for _, h := range hidden {
			if strings.Contains(text, h) {
				t.Errorf("%s shows the secret, as %q", where, h)
			}
		}
	}
	check("stdout", c.stdout.String())
	check("stderr", c.stderr.String())
	files := 0
	err = filepath.WalkDir(p.path("run"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		check(path, string(data))
		files++
		return err
	})
	if err != nil || files < 10 {
		t.Errorf("looked at %d files, %v", files, err)
	}
	if out := p.runOf("x").FinalOutput; !strings.Contains(out, "It has 34 characters and begins with hunter2: ****") {
		t.Errorf("final output %q", out)
	}
	check("dry run", p.start("run", "--isolate", "--dry-run", "eval.yaml").wait(exitOK).stdout.String())
}

// The mcp.json that waza puts into the workspace is the agent's, and not part of
// what graders see; one that a fixture brings is kept where the eval says so.
func TestMCPConfigInTheWorkspace(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, executor: script, isolation: {network: airtight, mcp_json: keep, agent: {image: "debian:bookworm-slim"}}, mcp_servers: {stock: {image: waza-examples/inventory}}}
tasks: [tasks/*.yaml]
-- tasks/1.yaml --
id: ours
inputs: {prompt: x}
script:
  - run: {command: [cat, .mcp.json]}
    as: one
  - run: {command: [cat, .copilot/mcp.json]}
    as: two
  - say: "{{ one.json.mcpServers.stock.url }} {{ one.stdout == two.stdout }}"
graders:
  - {type: text, name: said, config: {contains_cs: ["http://stock/mcp true"]}}
  - {type: file, name: absent, config: {must_not_exist: [.mcp.json, .copilot/mcp.json, .copilot]}}
-- tasks/2.yaml --
id: theirs
inputs: {prompt: x, files: [{path: .mcp.json, content: '{"theirs": true}'}]}
script:
  - read: {path: .mcp.json}
    as: config
  - call: {server: stock, tool: stock_report}
  - say: "{{ config.text }}"
graders:
  - {type: text, name: said, config: {contains_cs: ["theirs"]}}
  - {type: file, name: there, config: {must_exist: [.mcp.json], must_not_exist: [.copilot]}}
`, inventory)
	p.run(exitOK)
	for _, task := range []string{"ours", "theirs"} {
		if run := p.runOf(task); run.Outcome != evidence.ClassPass {
			t.Errorf("%s: %s %+v", task, run.Outcome, run.Validations)
		}
	}
}
