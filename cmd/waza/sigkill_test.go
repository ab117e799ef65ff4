package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
)

// killedRun is an eval whose trials have a server on stdio that takes its time to
// start and to answer, one over HTTP, and a service.
const killedRun = `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  parallel: true
  workers: 2
  executor: script
  isolation: {network: NETWORK, workspace: WORKSPACE}
graders:
  - {type: text, name: done, config: {contains: [done]}}
tasks: [tasks/*.yaml]
-- tasks/1.yaml --
id: pipe
inputs: {prompt: x, files: [{path: fixture.txt}]}
mcp_servers:
  slow: {image: "debian:bookworm-slim", command: sh, args: [/data/server.sh], files: {/data/server.sh: server.sh}}
script:
  - call: {server: slow, tool: wait}
    as: waited
  - write: {path: out.txt, content: "{{ waited.text }}"}
  - say: done
graders:
  - {type: mcp_compliance, name: used, config: {server: slow, expect_tools_used: [wait]}}
-- tasks/2.yaml --
id: web
inputs: {prompt: x}
mcp_servers:
  memory:
    image: waza-examples/go-memory
    args: [-http, "127.0.0.1:8000"]
    port: 8000
    path: /
    services:
      db: {image: "debian:bookworm-slim", command: sleep, args: ["600"], ports: [7000], ready: {exec: ["true"]}}
script:
  - call: {server: memory, tool: read_graph}
    as: graph
  - write: {path: graph.txt, content: "{{ graph.text }}"}
  - say: done
-- fixtures/fixture.txt --
as it was
-- server.sh --
sleep 0.2
while IFS= read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case "$line" in
  *'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"slow","version":"1"}}' ;;
  *'"tools/list"'*) result='{"tools":[{"name":"wait","inputSchema":{"type":"object"}}]}' ;;
  *'"tools/call"'*) sleep 0.3; result='{"content":[{"type":"text","text":"waited"}]}' ;;
  *'"id":'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}\n' "$id"; continue ;;
  *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
`

func newKilledProject(t *testing.T, network, workspace string) *project {
	t.Helper()
	return newProject(t, strings.NewReplacer("NETWORK", network, "WORKSPACE", workspace).Replace(killedRun), goMemory)
}

// killPoint is a moment of a run's life: before or after the engine has done what
// request tells, or, where that is empty, when the run directory is as file says.
type killPoint struct {
	name, when, request string
	file                func(runView) bool
}

// killChain is a run that is killed at one point, resumed and killed at the next,
// and so on, and completed at last. A point of a trial comes before those of trials
// that are begun later: what had ended is not run again.
type killChain struct {
	network, workspace string
	points             []killPoint
}

// runView is a run directory since a runner was started on it.
type runView struct {
	dir   string
	since time.Time
}

// fresh lists files that were written since then.
func (v runView) fresh(elem ...string) (names []string) {
	found, _ := filepath.Glob(filepath.Join(append([]string{v.dir}, elem...)...))
	return slices.DeleteFunc(found, func(name string) bool {
		info, err := os.Stat(name)
		return err != nil || info.ModTime().Before(v.since)
	})
}

// written says that a file is there, and filled that there is something in it.
func written(elem ...string) func(runView) bool {
	return func(v runView) bool { return len(v.fresh(elem...)) > 0 }
}

func filled(elem ...string) func(runView) bool {
	return func(v runView) bool {
		return slices.ContainsFunc(v.fresh(elem...), func(name string) bool {
			info, err := os.Stat(name)
			return err == nil && info.Size() > 0
		})
	}
}

// inCall says whether a tool call is on its way.
func inCall(v runView) bool {
	return slices.ContainsFunc(v.fresh("trials", "pipe", "*", evidence.FramesDir, "*"), func(name string) bool {
		data, _ := os.ReadFile(name)
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		return strings.Contains(lines[len(lines)-1], "tools/call")
	})
}

// killChains have a point in each phase of a run's life: it begins, a trial's network and workspace
// are made, its servers start, its agent works, it ends, the run ends. Points of a phase differ in
// what stands on the engine.
var killChains = []killChain{
	{"airtight", "tmpfs", []killPoint{
		{name: "lease: create asked for", when: before, request: `^create container lease$`},
		{name: "server on stdio: create asked for", when: before, request: `^create container pipe-\d-slow$`},
		{name: "agent attached", when: after, request: `^attach container .*-agent$`},
		{name: "in the midst of a tool call", file: inCall},
		{name: "run's volumes: removal asked for", when: before, request: `^remove volume `},
	}},
	{"bridge", "volume", []killPoint{
		{name: "users taken", when: after, request: `^create volume waza-users-`},
		{name: "task network made", when: after, request: `^create network `},
		{name: "workspace volume: filling asked for", when: before, request: `^fill container filler$`},
		{name: "service started", when: after, request: `^start container web-\d-.*db$`},
		{name: "task network: removal asked for", when: before, request: `^remove network `},
		{name: "results.json written", file: written("results.json")},
	}},
}

// A runner that is killed at any moment leaves no container that stands for long,
// and nothing after gc; and its run, resumed, comes to what an undisturbed one does.
func TestFaults_RunnerKilledAnywhere(t *testing.T) {
	t.Parallel()
	// gc removes by force what it finds of a dead run. So while a test waits for
	// containers to end by themselves, no other sweeps.
	var sweeping sync.RWMutex
	t.Run("at", func(t *testing.T) {
		for _, chain := range killChains {
			t.Run(chain.network+" "+chain.workspace, func(t *testing.T) {
				t.Parallel()
				undisturbed := newKilledProject(t, chain.network, chain.workspace)
				undisturbed.run(exitOK)
				p := newKilledProject(t, chain.network, chain.workspace)
				args := []string{"run", "--isolate", "eval.yaml", "--run-dir", "run"}
				for _, point := range chain.points {
					p.killAt(point, &sweeping, args)
					args = []string{"run", "--resume", "run"}
				}
				p.start(args...).wait(exitOK)
				dockertest.NoObjects(t, dockertest.Engine(t), p.runID())
				p.same(t, tell(t, undisturbed))
			})
		}
	})
}

// killAt starts waza, kills it at a point, and sees what becomes of what it had.
func (p *project) killAt(point killPoint, sweeping *sync.RWMutex, args []string) {
	t := p.t
	t.Helper()
	victim := make(chan *command, 1)
	reached := make(chan struct{})
	kill := sync.OnceFunc(func() {
		c := <-victim
		c.signal(syscall.SIGKILL)
		<-c.ended
		close(reached)
	})
	pattern := regexp.MustCompile(point.request)
	proxy := newKillProxy(t, func(when, request string) bool {
		if point.request == "" || when != point.when || !pattern.MatchString(request) {
			return false
		}
		kill()
		return true
	})
	env, view := p.env, runView{p.path("run"), time.Now()}
	p.env = append(slices.Clone(env), "DOCKER_HOST="+proxy.Host)
	c := p.start(args...)
	p.env = env
	victim <- c
	if point.file != nil {
		for !point.file(view) && !isDone(c.ended) {
			time.Sleep(time.Millisecond)
		}
		kill()
	}
	select {
	case <-reached:
	case <-c.ended:
	case <-time.After(runLimit):
	}
	killed := time.Now()
	state, ok := c.state()
	if !ok || !state.Signaled() || state.Signal() != syscall.SIGKILL {
		t.Fatalf("%s: the run never came to that\n%s%s", point.name, c.stdout.String(), c.stderr.String())
	}
	engine, run := dockertest.Engine(t), p.runID()
	sweeping.RLock()
	p.awaitNoneStands(point.name)
	t.Logf("%s: none stands after %s; left: %q", point.name, time.Since(killed).Round(10*time.Millisecond), dockertest.Objects(t, engine, run))
	sweeping.RUnlock()
	sweeping.Lock()
	p.start("gc").wait(exitOK)
	sweeping.Unlock()
	dockertest.NoObjects(t, engine, run)
}

// awaitNoneStands waits for the end of every container of the project's run that was
// started, and fails the test if one lives longer than waza promises.
func (p *project) awaitNoneStands(point string) {
	p.t.Helper()
	engine, run := dockertest.Engine(p.t), p.runID()
	stands := func(c container.Summary) bool { return c.State != "created" }
	dockertest.Await(p.t, dockertest.Dying, "no container stands after: "+point, func() bool {
		return !slices.ContainsFunc(dockertest.Containers(p.t, engine, run), stands)
	})
}

func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// state is how the process ended, if it has.
func (c *command) state() (syscall.WaitStatus, bool) {
	if !isDone(c.ended) {
		return 0, false
	}
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return status, ok
}
