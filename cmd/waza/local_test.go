package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/runner"
)

// newLocalProject returns a project without Docker, with the program inventory in PATH and its
// own temporary directory. At the end of the test, the directory must be empty and no process
// of the project running.
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

// left lists the processes that were started in the project and the entries of its temporary
// directory.
func (p *project) left() (found []string) {
	entries, err := os.ReadDir(p.path("tmp"))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, entry := range entries {
		found = append(found, entry.Name())
	}
	return append(found, p.processes()...)
}

// processes lists processes with the project's environment.
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
	if !strings.Contains(stdout, view.Run{}.Isolation().Text) {
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
	checkRegrade(t, p, 3, exitOK)
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

// The agent finds its mcp.json where clients look, its servers at the addresses in
// it, and none of that in what graders see.
func TestMCPConfigWithoutIsolation(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, executor: script, mcp_servers: {stock: {command: inventory}, more: {command: inventory}}}
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
config: {trials_per_task: 1, executor: mock, mcp_servers: {stock: {command: inventory}}}
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

// TestManyWithoutIsolation checks that concurrent trials do not interfere.
func TestManyWithoutIsolation(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 30, parallel: true, workers: 8, executor: script, mcp_servers: {stock: {command: inventory}}}
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

// TestPortsWithoutIsolation checks that another program on a server's port is not taken for the
// server.
func TestPortsWithoutIsolation(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	p := newLocalProject(t, strings.ReplaceAll(`
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: mock
  mcp_servers:
    web: {command: sleep, args: ["60"], port: PORT}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}}
`, "PORT", strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)))
	p.startLocal("--infra-retries", "0").wait(exitInfra)
	want := fmt.Sprintf("port %d of this machine is taken: another program listens there", ln.Addr().(*net.TCPAddr).Port)
	if run := p.runOf("x"); !strings.Contains(run.Message, want) {
		t.Errorf("reason %q, want %q", run.Message, want)
	}
}

// A server that exits before it answers has failed the run, once, and says how.
func TestLocalServerThatExits(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: mock
  mcp_servers:
    stock: {command: sh, args: [-c, "echo no license >&2; exit 3"]}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}}
`)
	c := p.startLocal().wait(exitFailed)
	run := p.runOf("x")
	if run.Outcome != evidence.ClassServerError || run.Attempts != 1 || !strings.Contains(run.Message, "no license") {
		t.Errorf("%+v", run)
	}
	if said := c.stdout.String(); !strings.Contains(said, "server stock: its crash ended 1 trial") {
		t.Errorf("%s", said)
	}
}
