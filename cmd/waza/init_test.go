package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/termtest"
)

// TestInitAsks answers what init asks on a terminal. No engine answers, and a server that cannot
// be inspected leaves no file.
func TestInitAsks(t *testing.T) {
	t.Parallel()
	p := unpackProject(t, "-- server.js --\n")
	pty := termtest.Open(t, 100, 40)
	cmd := exec.Command(dockertest.Waza(t), "init")
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.dir, append(p.env, "DOCKER_HOST=unix:///nowhere", "TERM=xterm"), pty.File, pty.File, pty.File
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ asked, answer string }{
		{"  1  node server.js\nserver [1]:", "ruby server.js"},
		{" it with --image\nserver [1]:", "ruby 'my server.rb"},
		{"the quote ' is not closed; write the command as in a shell\nserver [1]:", "1"},
		{"name of the eval [waza-e2e-", "sums"},
		{"gemini, opencode, llm [script]:", "scrpt"},
		{"did you mean \"script\"?\nagent: script", "script"},
		{"write a GitHub workflow, yes or no [yes]:", "no"},
	} {
		for end := time.Now().Add(time.Minute); !strings.Contains(pty.Text(), step.asked); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				_ = cmd.Process.Kill()
				t.Fatalf("it does not say %q:\n%s", step.asked, pty.Text())
			}
		}
		pty.Type(t, step.answer+"\n")
	}
	_ = cmd.Wait()
	if got, unknown := pty.End(t); cmd.ProcessState.ExitCode() != exitInfra || !strings.Contains(got, "unix:///nowhere") || len(unknown) > 0 {
		t.Errorf("exit code %d, unknown %q:\n%s", cmd.ProcessState.ExitCode(), unknown, got)
	}
	if p.exists("Dockerfile") || p.exists("eval.yaml") || p.exists(".github") {
		t.Error("files are left")
	}
}

// TestInitRefuses has what init refuses before it starts anything.
func TestInitRefuses(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"init":                                   "nothing that looks like an MCP server; say what it is",
		"init nowhere":                           "nowhere is not a directory, a file or a URL that begins with http:// or https://",
		"init https://":                          "https:// is not the URL of a server",
		"init https://someone:word@a.example":    "waza: server \"a-example\": url must not hold a user or password",
		"init -- ruby server.rb":                 "name an image that contains it with --image",
		"init here.ts":                           "here.ts is TypeScript; name the program that runs it, as in waza init -- tsx here.ts",
		"init -- npx tsx here.ts":                "npx tsx here.ts starts a package, which runs without the files here",
		"init -- npm start":                      "npm start runs a script of package.json; name the program that it starts",
		"init -- node serv.js":                   "there is no serv.js in .; correct its path",
		"init --dir file/x -- npx -y x":          "file/x/.github/workflows/waza.yml cannot be written: not a directory; write elsewhere with --dir",
		"init --executor scrpt -- npx -y x":      `did you mean "script"?`,
		"init --dir there -- npx -y x":           "these files exist already: there/eval.yaml",
		"init --egress other=a.example -- npx x": `--egress: no server "other"`,
		"init --allow-weak pong -- npx -y x":     `--allow-weak: there is no attack "pong"; did you mean "ping"?`,
		"init --env 1X=y -- npx -y x":            `--env takes NAME=VALUE, or NAME of a variable that is set here; not "1X=y"`,
		"init --env NOT_SET_HERE -- npx -y x":    "--env: variable NOT_SET_HERE is not set here; set it, or write --env NOT_SET_HERE=VALUE",
		"init skill":                             "skill/SKILL.md is a skill and no MCP server",
		"init skill/SKILL.md":                    "add tasks with waza new task NAME",
		"init local":                             `server "a" of local/mcp.json would get acme@1 from a registry, where a stranger may have taken the name, which local/package.json has here; to use the source, name the command that starts it, as in waza init local -- node server.js; to use the registry's, run waza init -- npx -y acme@1`,
		"init pnpm/a":                            "write a Dockerfile in pnpm that does, then run waza init --dir pnpm/a pnpm",
		"init two/a -- node x.js":                "package.json in two says where the packages of two/a come from",
		"init outside":                           "package.json of outside names \"../shared\", which leads out of what is built",
		"init tsc":                               "tsc: the script build of package.json runs tsc, and no package brings that; add it with npm install --save-dev typescript",
		"init tsc -- node dist/index.js":         "no package brings that",
		"init one.json two.json":                 "init takes one directory, file or URL",
		"init there/eval.yaml":                   "there/eval.yaml has no servers under config.mcp_servers",
		"init has/eval.yaml":                     "these files exist already: has/tasks/a.yaml; ",
		"init has/listed.yaml":                   "has/listed.yaml has no glob such as tasks/*.yaml under tasks",
		"init --env A=b has/eval.yaml":           "--env is for a new eval; write it into has/eval.yaml",
	} {
		p := unpackProject(t, "-- here.ts --\n-- there/eval.yaml --\nname: there\n-- has/eval.yaml --\nconfig: {mcp_servers: {a: {command: npx, args: [a]}}}\ntasks: [tasks/*.yaml]\n-- has/tasks/a.yaml --\n-- has/listed.yaml --\nconfig: {mcp_servers: {a: {command: npx, args: [a]}}}\ntasks: [tasks/a.yaml]\n-- skill/SKILL.md --\nIt is forty-two.\n-- file --\n"+
			"-- local/package.json --\n{\"name\": \"acme\"}\n-- local/mcp.json --\n{\"mcpServers\": {\"a\": {\"command\": \"npx\", \"args\": [\"-y\", \"acme@1\"]}}}\n"+
			"-- pnpm/pnpm-workspace.yaml --\npackages: [a]\n-- pnpm/a/package.json --\n{}\n-- two/package.json --\n{\"workspaces\": [\"a\"]}\n-- two/a/package.json --\n{}\n-- two/a/requirements.txt --\n-- two/a/x.js --\n-- outside/package.json --\n{\"main\": \"x.js\", \"dependencies\": {\"shared\": \"file:../shared\"}}\n-- outside/x.js --\n"+
			"-- tsc/package.json --\n{\"main\": \"dist/index.js\", \"scripts\": {\"build\": \"tsc\"}}\n")
		if said := p.start(strings.Fields(args)...).wait(exitUsage).stderr.String(); !strings.Contains(said, want) {
			t.Errorf("waza %s: %s", args, said)
		}
		if p.exists("eval.yaml") || p.exists(".github") {
			t.Errorf("waza %s left files", args)
		}
	}
}

// TestInitUntried writes an eval for a server that does not start, with what it asked for as comments,
// and not over one that is there. Without its tasks it is no eval yet.
func TestInitUntried(t *testing.T) {
	t.Parallel()
	p := newProject(t, "")
	args := []string{"init", "--name", p.name, "--no-ci", "--image", debian, "--", "sh", "-c", "echo Error: STOCK_URL is required >&2; exit 1"}
	said := p.start(args...).wait(exitInfra).stderr.String()
	for _, want := range []string{
		"wrote eval.yaml\n", "exited with code 1 before it answered", "asks for STOCK_URL",
		"; the eval is written without having tried it: complete what eval.yaml has after CHANGE ME, then add its tasks with waza init eval.yaml\n",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	written := p.read("eval.yaml")
	completed := regexp.MustCompile(`(?m)^( +)# (env|services|  )`).ReplaceAllString(written, "$1$2")
	p.write("eval.yaml", completed)
	if p.exists("tasks") {
		t.Error("it has tasks")
	}
	p.write("tasks/a.yaml", "id: a\ninputs: {prompt: Hello}\nscript: [{say: Hello}]\n")
	if said := p.start("run", "--isolate", "--dry-run", "eval.yaml").wait(exitOK).stdout.String(); !strings.Contains(completed, "      env: {STOCK_URL: CHANGE ME}\n") || !strings.Contains(said, "service   db") {
		t.Errorf("%s\n%s", completed, said)
	}
	if said := p.start(slices.Insert(args, 1, "--force")...).wait(exitInfra).stderr.String(); strings.Contains(said, "wrote") || p.read("eval.yaml") != completed {
		t.Errorf("it is written over: %s", said)
	}
}

// TestInitUnreached says which host a server may need for a call that failed.
func TestInitUnreached(t *testing.T) {
	t.Parallel()
	p := newProject(t, "")
	const server = `while read -r line; do
id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
case $line in
*'"initialize"'*) r='"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"tracker","version":"1"}}' ;;
*'"tools/list"'*) r='"result":{"tools":[{"name":"list_tickets","inputSchema":{"type":"object"}}]}' ;;
*'"tools/call"'*) getent hosts tracker.example; r='"error":{"code":-32603,"message":"fetch failed"}' ;;
*) r='"result":{}' ;;
esac
[ -z "$id" ] || printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$r"
done`
	said := p.start("init", "--name", p.name, "--no-ci", "--no-run", "--image", debian, "--", "sh", "-c", server).wait(exitOK).stderr.String()
	want := fmt.Sprintf("server %q asked for tracker.example, which it cannot reach; if a tool needs a host, run init again with --force --egress %[1]s=HOST:PORT\n", p.name)
	if !strings.Contains(said, want) {
		t.Errorf("no %q in\n%s", want, said)
	}
}

// TestInitOfURL writes an eval for a server on this machine, which the workflow does not reach and
// whose tools are not called.
func TestInitOfURL(t *testing.T) {
	t.Parallel()
	server := mcpserver.NewMCPServer("till", "1", mcpserver.WithToolCapabilities(false))
	server.AddTool(mcp.NewTool("pay"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		t.Error("the tool was called")
		return mcp.NewToolResultText("paid"), nil
	})
	till := httptest.NewServer(mcpserver.NewStreamableHTTPServer(server))
	defer till.Close()
	p := unpackProject(t, "")
	said := p.start("init", "--no-run", till.URL+"/mcp").wait(exitOK).stderr.String()
	for _, want := range []string{
		"server lists 1 tool; 0 tasks written\nno task for pay: a call may change something outside",
		`the workflow cannot reach server "server" at ` + till.URL + "/mcp from GitHub: start the server in a step",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	if !p.exists("eval.yaml") || !p.exists(".github") || p.exists("waza.lock") {
		t.Error("files are missing, or too many")
	}
	if said := p.start("init", "--no-run", "--no-ci", "--force", till.URL+"/mcp").wait(exitOK).stderr.String(); strings.Contains(said, "workflow") {
		t.Errorf("it speaks of a workflow that is not written: %s", said)
	}
}

// TestDirectoryIsGone checks what is said in a directory that was removed.
func TestDirectoryIsGone(t *testing.T) {
	t.Parallel()
	p := unpackProject(t, "")
	c := p.startProgram("/bin/sh", "-c", "mkdir gone && cd gone && rmdir ../gone && exec "+dockertest.Waza(t)+" check").wait(exitUsage)
	if got := c.stderr.String(); got != "waza: the current directory has been removed; change to one that is there\n" {
		t.Errorf("%s", got)
	}
}

// TestWorkflow holds what the workflow that init writes may do, and which actions it takes.
func TestWorkflow(t *testing.T) {
	const sha = "0123456789abcdef0123456789abcdef01234567"
	for _, test := range []struct{ version, commit, setup, install string }{
		{"v1.2.3", sha, sha + " # v1.2.3", "v1.2.3"}, {"v1.2.3", "", "v1.2.3", "v1.2.3"}, {"v1.2.3-4-gabc", sha, newestRelease, newestRelease}, {"(devel)", sha, newestRelease, newestRelease},
	} {
		content, err := workflowOf("evals/eval.yaml", test.version, test.commit).File()
		if err != nil {
			t.Fatal(err)
		}
		text := string(content)
		for _, want := range []string{
			"\npermissions: {}\njobs:", "    permissions: {contents: read}\n    steps:\n      - uses: actions/checkout@", "        with: {persist-credentials: false}\n",
			"setup-waza@" + test.setup + "\n        with: {version: " + test.install + "}\n", "github-comment evals/eval.yaml > ",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%+v: no %q in\n%s", test, want, text)
			}
		}
		eval, comment, _ := strings.Cut(text, "\n  comment:\n")
		if strings.Contains(eval, ": write") || strings.Contains(eval, "github.token") || strings.Contains(comment, "checkout") || strings.Contains(comment, "waza run") {
			t.Errorf("a job that runs the repository's programs has a token that may write:\n%s", text)
		}
	}
}

func TestNameOfCommand(t *testing.T) {
	for command, want := range map[string]string{
		"npx -y @scope/server-notes@1":                            "notes",
		"docker run -i --rm -e A=b registry:5000/team/mcp-mail:2": "mail",
		"podman run --rm docs@sha256:" + strings.Repeat("a", 64):  "docs",
		"docker run --privileged x":                               "docker",
		"/usr/bin/stock --all":                                    "stock",
	} {
		if got := nameOfCommand(strings.Fields(command)); got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
}

// TestInitVariables gives values of a client's file names of variables that mean nothing else here.
// Variables of --env are in the configuration of each server; the value of one of this machine is not.
func TestInitEnv(t *testing.T) {
	t.Parallel()
	b := &newEval{
		state:   &state{lookup: func(string) (string, bool) { return "mine", true }},
		secrets: map[string]string{}, servers: map[string]json.RawMessage{"s": json.RawMessage(`{"command":"serve","env":{"HAD":"1"}}`)},
	}
	if err := b.setEnv([]string{"PLAIN=a=b", "TOKEN"}); err != nil {
		t.Fatal(err)
	}
	if got, want := string(b.servers["s"]), `{"command":"serve","env":{"HAD":"1","PLAIN":"a=b","TOKEN":"${TOKEN}"}}`; got != want || b.secrets["TOKEN"] != "mine" {
		t.Errorf("%s, %v", got, b.secrets)
	}
}

func TestInitVariables(t *testing.T) {
	t.Parallel()
	env := map[string]string{"AWS_KEY": "mine", "TOKEN": "theirs"}
	b := &newEval{state: &state{lookup: func(name string) (string, bool) { value, ok := env[name]; return value, ok }}, secrets: map[string]string{}}
	for _, test := range []struct{ name, value, want string }{
		{"AWS_KEY", "theirs", "${AWS_KEY_2}"},
		{"TOKEN", "theirs", "${TOKEN}"},
		{"OTHER", "theirs", "${OTHER}"},
		{"OTHER", "another", "${OTHER_2}"},
		{"PLAIN", "public", "public"},
	} {
		if got := b.variable([]string{"theirs", "another"}, test.name, test.value); got != test.want {
			t.Errorf("%s, %s: %s, want %s", test.name, test.value, got, test.want)
		}
	}
}
