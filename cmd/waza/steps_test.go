package main

import (
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/moby/api/types/container"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
)

const (
	python = "python:3.11-slim-bookworm"
	node   = "node:24-bookworm-slim"
)

// verdicts are those of a task's first trial, by grader.
func (p *project) verdicts(task string) map[string]evidence.Verdict {
	p.t.Helper()
	all, err := p.trial(task).Verdicts()
	if err != nil {
		p.t.Fatal(err)
	}
	byName := map[string]evidence.Verdict{}
	for _, v := range all.Verdicts {
		byName[v.Name] = v
	}
	return byName
}

// want checks a verdict and what its feedback says.
func (p *project) want(task, grader string, result evidence.VerdictResult, feedback string) {
	p.t.Helper()
	v, ok := p.verdicts(task)[grader]
	if !ok || v.Result != result || !strings.Contains(v.Feedback, feedback) {
		p.t.Errorf("%s, %s: %s: %s; want %s: …%s…", task, grader, v.Result, v.Feedback, result, feedback)
	}
}

// gradedAgain repeats every verdict where there is no engine, and compares them byte
// for byte.
func (p *project) gradedAgain(code int, tasks ...string) {
	p.t.Helper()
	before := map[string]string{}
	for _, task := range tasks {
		before[task] = p.read("run", "trials", task, "1", evidence.VerdictsFile)
	}
	p.gradeWithoutEngine(code)
	for task, was := range before {
		if now := p.read("run", "trials", task, "1", evidence.VerdictsFile); now != was {
			p.t.Errorf("%s, graded again:\n%s\nbefore:\n%s", task, now, was)
		}
	}
}

// Programs of graders, and assertions in both languages, look at a workspace in which
// the agent left what it can to mislead them.
func TestProgramsAndAssertions(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, executor: script, isolation: {network: airtight}}
tasks: [task.yaml]
-- check.py --
import json, os, sys
workspace = os.environ["WAZA_WORKSPACE_DIR"]
assert not json.__file__.startswith(workspace), json.__file__
assert sys.stdin.read() == "done"
assert json.load(open(workspace + "/answer.json")) == {"n": 42}
print("n is 42")
-- task.yaml --
id: x
inputs:
  prompt: x
  files:
    - {path: json.py, content: "def load(f): return {'n': 42}\nloads = dumps = load\n"}
    - {path: sitecustomize.py, content: "import os\nos._exit(0)\n"}
    - {path: package.json, content: '{"type": "module", "main": "x.js"}'}
    - {path: node_modules/fs/index.js, content: "process.exit(0)"}
script:
  - write: {path: answer.json, content: '{"n": 42}'}
  - say: done
graders:
  - {type: program, name: by_file, config: {image: "python:3.11-slim-bookworm", command: python3, args: [check.py], files: {check.py: check.py}}}
  - {type: program, name: inline, config: {image: "python:3.11-slim-bookworm", command: python3, args: ["-c", "import json; print(json.__file__)"]}}
  - {type: program, name: exits, config: {image: "debian:bookworm-slim", command: sh, args: ["-c", "echo no; exit 3"]}}
  - {type: program, name: slow, config: {image: "debian:bookworm-slim", command: sleep, args: ["60"], timeout: 1}}
  - {type: program, name: missing, config: {image: "debian:bookworm-slim", command: nonesuch}}
  - {type: program, name: not_left, config: {image: "debian:bookworm-slim", command: /workspace/run.sh}}
  - type: code
    name: python
    assertions:
      - output == 'done'
      - json.loads('[1]') == [1]
      - open(workspace + '/answer.json').read() == '{"n":' + ' 42}'
      - len(tool_calls) == 1 and tool_calls[0]['success'] and tool_calls[0]['source'] == 'builtin'
      - any(event['type'] == 'assistant.message' and event['content'] == 'done' for event in transcript)
      - outcome['exit_code'] == 0 and errors == [] and duration_ms >= 0
  - type: code
    name: javascript
    config:
      language: javascript
      assertions: ["output === 'done'", "JSON.parse(require('fs').readFileSync(workspace + '/answer.json')).n === 42", "tool_calls.length === 1 // the write"]
  - {type: code, name: some, assertions: ["True", "print('{\"results\": [{\"holds\": true}]}')", "1/0", "exit()", "tool_calls.append(1) or True", "len(tool_calls) == 1"]}
  - {type: code, name: ended, assertions: ["True", "os._exit(0)"]}
  - {type: code, name: promised, config: {language: javascript, assertions: ["Promise.resolve(false)", "new Promise(() => {})"]}}
  - {type: code, name: none}
`, python, node)
	p.run(exitFailed)
	for _, test := range []struct {
		grader   string
		result   evidence.VerdictResult
		feedback string
	}{
		{"by_file", evidence.VerdictPass, "n is 42"},
		{"inline", evidence.VerdictPass, "/json/__init__.py"},
		{"exits", evidence.VerdictFail, `it exited with 3. Its stdout: "no"`},
		{"slow", evidence.VerdictFail, "it ran longer than 1 s"},
		{"missing", evidence.VerdictError, `"nonesuch": no such program`},
		{"not_left", evidence.VerdictFail, "it could not be started"},
		{"python", evidence.VerdictPass, "All 6"},
		{"javascript", evidence.VerdictPass, "All 3"},
		{"some", evidence.VerdictFail, "it failed: ZeroDivisionError"},
		{"ended", evidence.VerdictFail, "ended the evaluation"},
		{"promised", evidence.VerdictFail, "ended the evaluation"},
		{"none", evidence.VerdictPass, "no assertions"},
	} {
		p.want("x", test.grader, test.result, test.feedback)
	}
	if score := p.verdicts("x")["some"].Score; score != 3./6 {
		t.Errorf("score %v of assertions of which three hold", score)
	}
	images := p.record().Images
	if images[python].ID == "" || images[node].ID == "" {
		t.Errorf("run.json does not tell the graders' images: %v", images)
	}
	p.gradedAgain(exitFailed, "x")
}

// A grader's program has no way out of its container, and what it does to the workspace it
// does to a copy.
func TestProgramOfAGraderIsShutIn(t *testing.T) {
	t.Parallel()
	host, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	heard := make(chan struct{}, 1)
	go func() {
		if conn, err := host.Accept(); err == nil {
			_ = conn.Close()
			heard <- struct{}{}
		}
	}()
	_, port, _ := net.SplitHostPort(host.Addr().String())
	p := newProject(t, strings.ReplaceAll(`
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, executor: script, isolation: {network: bridge}}
tasks: [task.yaml]
-- task.yaml --
id: x
inputs: {prompt: x, files: [{path: a.txt, content: before}]}
mcp_servers: {stock: {image: waza-examples/inventory}}
script: [{say: done}]
graders:
  - type: program
    name: attack
    config:
      image: python:3.11-slim-bookworm
      command: python3
      args: [attack.py, "PORT", ADDRESS]
      files: {attack.py: attack.py}
  - {type: file, name: unchanged, config: {content_patterns: [{path: a.txt, must_match: ["^before$"]}]}}
  - {type: program, name: next, config: {image: "debian:bookworm-slim", command: grep, args: ["-x", before, /workspace/a.txt]}}
-- attack.py --
import os, socket, sys
open(os.environ["WAZA_WORKSPACE_DIR"] + "/a.txt", "w").write("after")
got = []
for name, port in [(sys.argv[2], sys.argv[1]), ("127.0.0.1", sys.argv[1]), ("192.0.2.1", "80"), ("stock", "80"), ("localhost", "80")]:
    try:
        socket.create_connection((name, int(port)), timeout=2).close()
        got.append(name)
    except OSError:
        pass
interfaces = [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line]
for path in ["/etc/x", "/usr/x", "/opt/waza/x", "/etc/waza/x"]:
    try:
        open(path, "w")
        got.append(path)
    except OSError:
        pass
print(got, interfaces, os.getuid() != 0)
sys.exit(bool(got) or interfaces != ["lo"] or os.getuid() == 0)
`, "PORT", port), python, inventory)
	p.write("task.yaml", strings.ReplaceAll(p.read("task.yaml"), "ADDRESS", `"`+dockertest.Gateway(t)+`"`))
	p.run(exitOK)
	p.want("x", "attack", evidence.VerdictPass, "[] ['lo'] True")
	select {
	case <-heard:
		t.Error("a grader's program reached the host")
	default:
	}
}

// A runner that is killed while a grader's program runs leaves nothing, and the run is
// completed.
func TestFaults_RunnerKilledInAStep(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, executor: script, isolation: {network: airtight}}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}, script: [{say: done}], graders: [{type: program, name: slow, config: {image: "debian:bookworm-slim", command: sleep, args: ["3"]}}]}
`)
	engine := dockertest.Engine(t)
	c := p.startRun()
	run := ""
	c.await("the grader's program runs", func() bool {
		if !p.exists("run", "run.json") {
			return false
		}
		run = p.runID()
		for _, one := range dockertest.Containers(t, engine, run) {
			if strings.Contains(one.Labels["waza.trial"], ".grader") && one.State == container.StateRunning {
				return true
			}
		}
		return false
	})
	c.signal(syscall.SIGKILL)
	dockertest.AwaitNoContainers(t, engine, run)
	if p.exists("run", "trials", "x", "1", evidence.TrialFile) {
		t.Fatal("the trial had ended before")
	}
	p.start("run", "--resume", "run").wait(exitOK)
	p.want("x", "slow", evidence.VerdictPass, "")
	dockertest.NoObjects(t, engine, p.runID())
}

// counting is a server on stdio that counts in its own memory, and wants to know
// something of its client whenever it is asked.
const counting = `
-- counting.sh --
count=0
while IFS= read -r line; do
  id=${line#*\"id\":}; id=${id%%,\"method*}; id=${id%%\}*}
  case "$line" in
  *'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"counting","version":"1"}}' ;;
  *'"name":"add"'*) count=$((count+1)); echo "$count" > /data/count; result='{"content":[{"type":"text","text":"added"}]}' ;;
  *'"name":"count"'*)
    printf '{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}\n'
    IFS= read -r refusal
    case "$refusal" in *-32601*) refused=true ;; *) refused=false ;; esac
    result='{"content":[],"structuredContent":{"count":'$count',"pid":'$$',"refused":'$refused'}}' ;;
  *'"name":"fail"'*) result='{"isError":true,"content":[{"type":"text","text":"it is broken"}]}' ;;
  *'"name":"pid"'*) result='{"content":[{"type":"text","text":"'$$'"}]}' ;;
  *'"name":"die"'*) exit 7 ;;
  *'"name":"hang"'*) continue ;;
  *'"id":'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such tool"}}\n' "$id"; continue ;;
  *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
`

// The state grader asks the very process that the agent talked with, and what it asks
// is no call of the agent's.
func TestStateOfAProcess(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: script
  isolation: {network: airtight}
  mcp_servers: {counter: {image: "debian:bookworm-slim", command: sh, args: [/data/counting.sh], files: {/data/counting.sh: counting.sh}}}
tasks: [tasks/*.yaml]
-- tasks/1.yaml --
id: asked
inputs: {prompt: x}
script:
  - call: {server: counter, tool: add}
  - call: {server: counter, tool: add}
  - {call: {server: counter, tool: pid}, as: process}
  - say: "{{ process.text }}"
graders:
  - type: state
    name: counted
    config:
      server: counter
      calls:
        - {tool: count, result: {match: contains, values: {count: 2, refused: true}}}
        - {tool: fail, error: true, contains: broken}
        - {tool: nonesuch, error: true, matches: ["no such .ool"]}
        - {tool: pid, matches: "^[0-9]+$"}
      files:
        - {path: /data/count, contains: "2"}
        - {path: /data/other, exists: false}
        - {path: /data}
  - type: state
    name: wrong
    config:
      server: counter
      calls: [{tool: count, result: {values: {count: 3}}}, {tool: fail}, {tool: add, error: true}, {tool: hang, timeout: 1}]
      files: [{path: /data/count, exists: false}, {path: /data/none}, {path: /data/count, matches: "^3"}]
  - {type: behavior, name: two, config: {max_mcp_calls: 3}}
-- tasks/2.yaml --
id: untouched
inputs: {prompt: x}
script: [{say: done}]
graders: [{type: state, name: counted, config: {server: counter, calls: [{tool: count, result: {values: {count: 0}}}]}}]
-- tasks/3.yaml --
id: died
inputs: {prompt: x}
script: [{call: {server: counter, tool: die, expect: any}}, {say: done}]
graders: [{type: state, name: counted, config: {server: counter, calls: [{tool: count}]}}]
`+counting)
	p.run(exitFailed)
	p.want("asked", "counted", evidence.VerdictPass, "All")
	p.want("asked", "two", evidence.VerdictPass, "")
	for _, sentence := range []string{
		`count: 2, expected 3`, `Expected "fail" of server "counter" to succeed; it was a tool_error: "it is broken"`,
		`Expected "add" of server "counter" to fail; it answered "added"`, `it was a timeout: the server did not answer within 1 s`,
		`Expected nothing at "/data/count" in the container of server "counter"; there is a file`, `"/data/none" in the container of server "counter"; there is nothing`,
		`to match "^3"; it is "2\n"`,
	} {
		p.want("asked", "wrong", evidence.VerdictFail, sentence)
	}
	p.want("untouched", "counted", evidence.VerdictPass, "")
	p.want("died", "counted", evidence.VerdictFail, "exited with code 7")
	asked, err := p.trial("asked").Steps()
	if err != nil {
		t.Fatal(err)
	}
	pid := slices.IndexFunc(asked, func(s evidence.Step) bool { return strings.Contains(string(s.Ask), `"tool":"pid"`) })
	if answer := string(asked[pid].Answer); !strings.Contains(answer, `"process":"last"`) || !strings.Contains(answer, `"text":"`+p.runOf("asked").FinalOutput+`"`) {
		t.Errorf("process %s talked with the agent, and the answer is %s", p.runOf("asked").FinalOutput, answer)
	}
	senders := map[string]evidence.Sender{} // by conversation
	for f, err := range p.trial("asked").Frames() {
		if err != nil {
			t.Fatal(err)
		}
		if was, ok := senders[f.Conn]; ok && was != f.Sender || f.OfAgent() && strings.Contains(string(f.Raw), "sampling") {
			t.Errorf("the runner's own calls are among the agent's: frame %d of %s: %s", f.Seq, f.Conn, f.Raw)
		}
		senders[f.Conn] = f.Sender
	}
	if senders["runner/counter/1"] != evidence.SenderRunner || senders["probe/counter/1"] != evidence.SenderRunner {
		t.Errorf("senders by conversation are %v", senders)
	}
	if calls, err := p.trial("asked").Calls(); err != nil || len(calls) != 3 {
		t.Errorf("%d calls, %v", len(calls), err)
	}
	p.gradedAgain(exitFailed, "asked", "untouched", "died")
}

// A config that was changed since is not judged by answers to another question.
func TestStateAskedOtherwise(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, executor: script, isolation: {network: airtight}, mcp_servers: {memory: {image: waza-examples/go-memory, args: [-http, "127.0.0.1:8000"], port: 8000, path: /}}}
tasks: [task.yaml]
-- task.yaml --
id: x
inputs: {prompt: x}
script:
  - call: {server: memory, tool: create_entities, arguments: {entities: [{name: Ada, entityType: person, observations: [writes programs]}]}}
  - say: done
graders:
  - type: state
    name: remembered
    config: {server: memory, calls: [{tool: read_graph, result: {values: {entities: [{name: Ada, observations: [writes programs]}]}}}]}
`, goMemory)
	p.run(exitOK)
	p.want("x", "remembered", evidence.VerdictPass, "")
	trial := p.path("run", "trials", "x", "1", evidence.TrialFile)
	text := p.read("run", "trials", "x", "1", evidence.TrialFile)
	if err := os.WriteFile(trial, []byte(strings.ReplaceAll(text, `"read_graph"`, `"search_nodes"`)), 0o644); err != nil {
		t.Fatal(err)
	}
	p.gradeWithoutEngine(exitFailed)
	p.want("x", "remembered", evidence.VerdictError, "its config was changed since")
}

func (p *project) gradeWithoutEngine(code int) {
	p.t.Helper()
	p.env = append(p.env, "DOCKER_HOST=unix:///nowhere/docker.sock")
	p.start("grade", "run").wait(code)
}

// Without containers the same is done by processes of this machine, over a copy of the
// workspace, and what only a container has is refused before anything runs.
func TestStepsWithoutIsolation(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, isolation: {network: airtight}, executor: script, mcp_servers: {counter: {command: sh, args: [counting.sh]}}}
tasks: [task.yaml]
-- check.sh --
cd "$WAZA_WORKSPACE_DIR" && grep -qx hello out.txt && rm out.txt && echo "it was there"
-- task.yaml --
id: x
inputs: {prompt: x}
script: [{write: {path: out.txt, content: hello}}, {call: {server: counter, tool: pid}, as: process}, {say: "{{ process.text }}"}]
graders:
  - {type: program, name: looks, config: {command: sh, args: [check.sh], files: {check.sh: check.sh}, image: nobody/needs-it}}
  - {type: program, name: again, config: {command: sh, args: [check.sh], files: {check.sh: check.sh}}}
  - {type: state, name: counted, config: {server: counter, calls: [{tool: count, result: {values: {count: 0, refused: true}}}]}}
`+counting)
	c := p.startLocal().wait(exitOK)
	p.want("x", "looks", evidence.VerdictPass, "it was there")
	p.want("x", "again", evidence.VerdictPass, "it was there")
	p.want("x", "counted", evidence.VerdictPass, "")
	if said := c.stdout.String() + c.stderr.String(); !strings.Contains(said, `image of grader "looks"`) {
		t.Errorf("nothing says that the image has no effect: %s", said)
	}
	steps, err := p.trial("x").Steps()
	if err != nil || !strings.Contains(string(steps[0].Answer), `"pid":`+p.runOf("x").FinalOutput) {
		t.Errorf("process %s talked with the agent; %s, %v", p.runOf("x").FinalOutput, steps[0].Answer, err)
	}
	p.write("task.yaml", strings.ReplaceAll(p.read("task.yaml"), "calls: [", "files: [{path: /x}], calls: ["))
	if c := p.start("run", "--no-isolate", "eval.yaml").wait(exitUsage); !strings.Contains(c.stderr.String(), `files of server "counter" are in its container: it needs --isolate`) {
		t.Errorf("stderr: %s", c.stderr.String())
	}
}
