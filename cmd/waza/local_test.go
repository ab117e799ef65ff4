package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/evidence"
)

// newLocalProject is a project on a machine without Docker that has the program
// inventory in PATH, and a temporary directory of its own. When the test ends,
// that is empty and no process of the project runs.
func newLocalProject(t *testing.T, archive string) *project {
	t.Helper()
	p := unpackProject(t, archive)
	server := dockertest.Program(t, "examples/mcp-eval/server", "inventory")
	if err := os.Mkdir(p.path("tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.env = append(p.env,
		"TMPDIR="+p.path("tmp"), "DOCKER_HOST=unix:///nonexistent/docker.sock",
		"PATH="+filepath.Dir(server)+":"+os.Getenv("PATH"))
	t.Cleanup(func() {
		if left := p.left(); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
	return p
}

// left lists the processes that were started in the project and the entries of
// its temporary directory.
func (p *project) left() (found []string) {
	entries, err := os.ReadDir(p.path("tmp"))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, entry := range entries {
		found = append(found, entry.Name())
	}
	for _, process := range p.processes() {
		found = append(found, process)
	}
	return found
}

// processes lists what runs with the project's environment.
func (p *project) processes() (found []string) {
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		p.t.Fatal(err)
	}
	for _, file := range all {
		environ, _ := os.ReadFile(file)
		if bytes.Contains(environ, []byte("TMPDIR="+p.path("tmp")+"\x00")) {
			command, _ := os.ReadFile(filepath.Dir(file) + "/cmdline")
			found = append(found, strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return found
}

func (p *project) startLocal(args ...string) *command {
	p.t.Helper()
	return p.start(append([]string{"run", "eval.yaml", "--run-dir", "run"}, args...)...)
}

// The first example runs where there is no Docker, and says everywhere that
// nothing was isolated.
func TestExampleWithoutIsolation(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, "")
	if err := os.CopyFS(p.dir, os.DirFS("../../examples/mcp-eval")); err != nil {
		t.Fatal(err)
	}
	c := p.startLocal("-v").wait(exitOK)
	stdout, stderr := c.stdout.String(), c.stderr.String()
	if !strings.Contains(stdout, "\nnot isolated\n") || !strings.Contains(stdout, notIsolated) {
		t.Errorf("stdout: %s", stdout)
	}
	if !strings.Contains(stderr, "without --isolate nothing is isolated") || !strings.Contains(stderr, `without --isolate these have no effect: image of server "inventory"`) {
		t.Errorf("stderr: %s", stderr)
	}
	r := p.record()
	if r.Isolated || r.Network != "none" || r.Engine["engine"] != "process" || len(r.Images) > 0 {
		t.Errorf("run.json: %+v", r)
	}
	if g := r.Guarantees; g == nil || g.Backend != "process" || !strings.Contains(strings.Join(g.Missing, "\n"), "nothing was isolated") {
		t.Errorf("guarantees %+v", g)
	}
	if p.results().Config.Isolated {
		t.Error("results.json says that trials were isolated")
	}
	checkFrames(t, p, 3)
	exploreInventory(t, p)
	checkRegrade(t, p, 3)
}

// The same eval has the same verdicts on both backends.
func TestSameVerdicts(t *testing.T) {
	t.Parallel()
	verdicts := func(p *project) map[string]string {
		all := map[string]string{}
		for _, task := range []string{"price", "reserve", "report"} {
			all[task] = p.read("run", "trials", task, "1", evidence.VerdictsFile)
		}
		return all
	}
	here := newLocalProject(t, "")
	there := newProject(t, "", inventory)
	for _, p := range []*project{here, there} {
		if err := os.CopyFS(p.dir, os.DirFS("../../examples/mcp-eval")); err != nil {
			t.Fatal(err)
		}
	}
	here.startLocal().wait(exitOK)
	there.write("eval.yaml", strings.Replace(there.read("eval.yaml"), "name: inventory", "name: "+there.name, 1))
	there.run(exitOK)
	want := verdicts(there)
	for task, got := range verdicts(here) {
		if got != want[task] {
			t.Errorf("%s: without containers\n%s\nwith\n%s", task, got, want[task])
		}
	}
}

func TestInterruptedWithoutIsolation(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		signals []os.Signal
	}{
		{"once", []os.Signal{os.Interrupt}},
		{"twice", []os.Signal{os.Interrupt, os.Interrupt}},
		{"terminated", []os.Signal{syscall.SIGTERM}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newLocalProject(t, strings.ReplaceAll(longRun, "image: waza-examples/inventory", "command: inventory"))
			c := p.startLocal()
			p.awaitAgents(c, "slow-1", "slow-2", "slow-3", "slow-4")
			p.await(c, "trials", "quick", "1", evidence.VerdictsFile)
			for i, s := range test.signals {
				if i > 0 {
					c.await("the first signal was heard", func() bool {
						return strings.Contains(c.stderr.String(), "interrupted")
					})
				}
				c.signal(s)
			}
			c.wait(exitInfra)
			if left := p.left(); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			if !p.record().Interrupted || p.results().Summary.Succeeded != 1 {
				t.Errorf("%+v, %+v", p.record(), p.results().Summary)
			}
		})
	}
}

// When the runner is killed, the programs that it started end with it. What these
// started, and directories, are left to gc, which needs no Docker for that.
func TestRunnerKilledWithoutIsolation(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  timeout_seconds: 300
  executor: command
  agent: {command: sh, args: [-c, "sleep 301 & setsid sleep 302 & echo up > up; wait"]}
  mcp_servers: {stock: {command: inventory}}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}}
`)
	c := p.startLocal()
	c.await("the agent has children", func() bool {
		up, _ := filepath.Glob(p.path("tmp", "*", "*", "x-1", "workspace", "up"))
		return len(up) == 1
	})
	live := p.start("gc").wait(exitInfra) // for want of an engine
	if said := live.stdout.String(); said != "" {
		t.Errorf("gc beside a live run says %q", said)
	}
	c.signal(syscall.SIGKILL)
	<-c.ended
	dockertest.Await(t, 10*time.Second, "what the runner started is gone", func() bool {
		all := strings.Join(p.processes(), "\n")
		return !strings.Contains(all, "sh -c") && !strings.Contains(all, "inventory")
	})
	if left := p.processes(); len(left) != 2 {
		t.Errorf("%q are left for gc: does this test test anything?", left)
	}
	gc := p.start("gc").wait(exitInfra)
	if said := gc.stdout.String(); !strings.Contains(said, "ended 2 process(es) and removed the directories of 1 dead run(s)") {
		t.Errorf("gc says %q", said)
	}
	if said := gc.stderr.String(); !strings.Contains(said, "containers were not looked for: no Docker engine answers") {
		t.Errorf("gc complains %q", said)
	}
}

// Programs that do not want to end, and those that they leave behind.
func TestStubbornWithoutIsolation(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, config string
		code         int
		class        evidence.Class
	}{
		{"a server that ignores SIGTERM and the end of stdin", `
  executor: script
  mcp_servers: {stock: {command: sh, args: [-c, "trap '' TERM; inventory; while :; do sleep 300; done"]}}`, exitOK, evidence.ClassPass},
		{"an agent that leaves children", `
  executor: command
  agent: {command: sh, args: [-c, "sleep 300 & setsid sleep 300 & echo done"]}`, exitOK, evidence.ClassPass},
		{"an agent that ignores its time limit", `
  executor: command
  agent: {command: sh, args: [-c, "trap '' TERM; sleep 300 & setsid sleep 300 & while :; do sleep 300; done"]}`, exitFailed, evidence.ClassTimeout},
		{"an agent that takes rights away", `
  executor: command
  agent: {command: sh, args: [-c, "mkdir -p a/b; echo x > a/b/c; chmod 0 a/b a .; ln -s /etc l; exit 0"]}`, exitOK, evidence.ClassPass},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			script := ""
			if strings.Contains(test.config, "executor: script") {
				script = ", script: [{call: {server: stock, tool: stock_report}}, {say: done}]"
			}
			p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  timeout_seconds: 3`+test.config+`
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}`+script+`}
`)
			p.startLocal().wait(test.code)
			if got := p.runOf("x"); got.Outcome != test.class {
				t.Errorf("%s: %s", got.Outcome, got.Reason)
			}
		})
	}
}

// What a run without isolation says it does not hold is so: a program that leaves
// its group and drops its environment outlives it.
func TestEscapeWithoutIsolation(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  timeout_seconds: 30
  executor: command
  agent: {command: sh, args: [-c, "env -i setsid sleep 300 >/dev/null 2>&1 & echo $!; sleep 0.3"]}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}}
`)
	p.startLocal().wait(exitOK)
	pid, err := strconv.Atoi(strings.TrimSpace(p.runOf("x").FinalOutput))
	if err != nil {
		t.Fatal(err)
	}
	command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if string(command) != "sleep\x00300\x00" {
		t.Fatalf("process %d is %q: what the guarantees say is missing is there", pid, command)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if said := strings.Join(p.record().Guarantees.Missing, "\n"); !strings.Contains(said, "drops WAZA_SANDBOX from its environment outlives the trial") {
		t.Errorf("guarantees miss %q", said)
	}
}

// The agent finds its mcp.json where clients look, its servers at the addresses in
// it, and none of that in what graders see.
func TestMCPConfigWithoutIsolation(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, timeout_seconds: 30, executor: script, mcp_servers: {stock: {command: inventory}, more: {command: inventory}}}
tasks: [tasks/*.yaml]
-- tasks/1.yaml --
id: ours
inputs: {prompt: x, files: [{path: kept.txt, content: x}]}
script:
  - run: {command: [cat, .mcp.json]}
    as: one
  - run: {command: [sh, -c, "cat .copilot/mcp.json; cmp $WAZA_MCP_CONFIG .mcp.json"]}
    as: two
  - call: {server: stock, tool: stock_report}
  - call: {server: more, tool: stock_report}
  - say: "{{ one.json.mcpServers.stock.url }} {{ one.json.mcpServers.more.url }} {{ one.stdout == two.stdout }}"
graders:
  - {type: text, name: said, config: {regex_match: ["^http://127.0.0.1:[0-9]+/mcp http://127.0.0.1:[0-9]+/mcp true"]}}
  - {type: file, name: absent, config: {must_exist: [kept.txt], must_not_exist: [.mcp.json, .copilot/mcp.json, .copilot]}}
  - {type: behavior, name: both, config: {required_mcp_servers: [stock, more]}}
`)
	p.startLocal().wait(exitOK)
}

// A program and a working directory are relative to the eval's directory; of the
// environment, a server has the user's and its own.
func TestServerBesideTheEval(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- evals/eval.yaml --
name: NAME
config:
  trials_per_task: 1
  timeout_seconds: 30
  executor: mock
  mcp_servers:
    beside: {command: bin/server, cwd: data, env: {OWN: mine}}
tasks: [task.yaml]
-- evals/task.yaml --
{id: x, inputs: {prompt: x}}
-- evals/bin/server --
#!/bin/sh
echo "$PWD $OWN $OUTER $HOME" >&2
exec inventory
-- evals/data/file --
`)
	if err := os.Chmod(p.path("evals", "bin", "server"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.env = append(p.env, "OUTER=theirs", "HOME=/somewhere")
	p.start("run", "evals/eval.yaml", "--run-dir", "run").wait(exitOK)
	got := p.read("run", "trials", "x", "1", "servers", "beside.stderr")
	if want := p.path("evals", "data") + " mine theirs /somewhere\n"; !strings.HasPrefix(got, want) {
		t.Errorf("the server says %q, want %q", got, want)
	}
}

func TestKeepWithoutIsolation(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, timeout_seconds: 30, executor: mock, mcp_servers: {stock: {command: inventory}}}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x, files: [{path: kept.txt, content: kept}]}}
`)
	c := p.startLocal("--keep")
	c.await("the workspace stands", func() bool {
		return strings.Contains(c.stderr.String(), "Press Ctrl-C to remove it.")
	})
	found := regexp.MustCompile(`  cd (\S+)\n`).FindStringSubmatch(c.stderr.String())
	if len(found) != 2 {
		t.Fatalf("stderr: %s", c.stderr.String())
	}
	content, err := os.ReadFile(filepath.Join(found[1], "kept.txt"))
	if string(content) != "kept" {
		t.Errorf("the workspace has %q, %v", content, err)
	}
	var config struct {
		MCPServers map[string]struct{ URL string }
	}
	raw, err := os.ReadFile(filepath.Join(found[1], ".mcp.json"))
	if err == nil {
		err = json.Unmarshal(raw, &config)
	}
	if err != nil || !strings.HasPrefix(config.MCPServers["stock"].URL, "http://127.0.0.1:") {
		t.Errorf("mcp.json is %s, %v", raw, err)
	}
	c.signal(os.Interrupt)
	c.wait(exitOK)
	if _, err := os.Stat(found[1]); err == nil {
		t.Errorf("%s is still there", found[1])
	}
}

// Trials side by side keep apart.
func TestManyWithoutIsolation(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 30, timeout_seconds: 60, parallel: true, workers: 8, executor: script, mcp_servers: {stock: {command: inventory}}}
tasks: [task.yaml]
-- task.yaml --
id: x
inputs: {prompt: x}
script: [{call: {server: stock, tool: reserve_item, arguments: {sku: MTR-2200, quantity: 3}}, as: r}, {say: "{{ r.json.code }}"}]
graders: [{type: text, name: first, config: {contains_cs: ["R1-4357A51F"]}}]
`)
	p.startLocal().wait(exitOK)
	dirs, err := runner.Trials(p.path("run"))
	if err != nil || len(dirs) != 30 {
		t.Errorf("%d trials, %v", len(dirs), err)
	}
}
