package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
)

// waits is an eval whose agent blocks in its first attempt and ends soon in later ones. A
// shared server counts the attempts.
const waits = `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: script
  isolation: {network: airtight}
  mcp_server_lifetime: per_benchmark
  mcp_servers:
    it: {image: "debian:bookworm-slim", command: /srv/hostile, args: [count], files: {/srv/hostile: hostile}}
tasks: [task.yaml]
-- task.yaml --
id: x
inputs: {prompt: x}
script:
  - call: {server: it, tool: poke}
    as: attempt
  - say: "attempt {{ attempt.text }}"
  - loop: {over: '{{ attempt.text == "1" ? [1] : [] }}', steps: [{sleep: 90s}]}
graders:
  - {type: text, name: again, config: {contains: ["attempt 2"]}}
`

// TestFaults_KilledFromOutside checks that the agent is not blamed for what somebody else does
// through the engine: the trial is retried, and the earlier attempt is kept.
func TestFaults_KilledFromOutside(t *testing.T) {
	t.Parallel()
	p := newProject(t, waits)
	p.compile("hostile", "./testdata/hostile")
	c := p.startRun()
	c.await("the first attempt is at work", func() bool {
		return p.exists("run", "trials", "x", "1", evidence.FramesOf("it")) && strings.Contains(p.read("run", "trials", "x", "1", evidence.FramesOf("it")), `tools/call`)
	})
	dockertest.Kill(t, dockertest.Engine(t), p.runID(), "agent")
	c.wait(exitOK)
	run := p.runOf("x")
	if run.Outcome != evidence.ClassPass || run.Attempts != 2 || len(run.Earlier) != 1 || run.Earlier[0].Reason != evidence.ReasonKilled {
		t.Errorf("%s in attempt %d, before it %+v", run.Outcome, run.Attempts, run.Earlier)
	}
	if s := p.results().Summary; s.Again != 1 || s.Succeeded != 1 {
		t.Errorf("summary %+v", s)
	}
	earlier, err := evidence.Dir(p.path("run", "trials", "x", "1", "attempts", "1")).Trial()
	if err != nil || earlier.Class != evidence.ClassInfra || earlier.AgentStart.IsZero() {
		t.Errorf("the first attempt is kept as %+v, %v", earlier, err)
	}
	if !strings.Contains(c.stdout.String(), "x/1 pass after 1 attempt that ended as incomplete: killed: the ") {
		t.Errorf("stdout: %s", c.stdout.String())
	}
	if !regexp.MustCompile(`(?m)^incomplete \(killed\) +x/1 .*; trying again$`).MatchString(c.stderr.String()) {
		t.Errorf("stderr: %s", c.stderr.String())
	}
	before := p.read("run", "results.json")
	p.start("grade", "run").wait(exitOK)
	if p.read("run", "results.json") != before {
		t.Error("grading again changed the results")
	}
}

// TestNoRetries checks that, without retries, a trial that somebody else ended has no outcome.
func TestNoRetries(t *testing.T) {
	t.Parallel()
	p := newProject(t, waits)
	p.compile("hostile", "./testdata/hostile")
	c := p.startRun("--infra-retries", "0")
	p.awaitAgents(c, "x")
	dockertest.Kill(t, dockertest.Engine(t), p.runID(), "agent")
	c.wait(exitInfra)
	if run := p.runOf("x"); run.Outcome != evidence.ClassInfra || run.Reason != evidence.ReasonKilled || p.exists("run", "trials", "x", "1", "attempts") {
		t.Errorf("%s (%s): %s", run.Outcome, run.Reason, run.Message)
	}
	if !strings.Contains(c.stdout.String(), "x/1 incomplete (killed): ") {
		t.Errorf("stdout: %s", c.stdout.String())
	}
}

// soonDone is an eval whose agent does nothing.
const soonDone = `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, executor: script}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}, script: [{say: done}]}
`

// TestFaults_EngineHiccup checks that a request which the engine fails once is repeated.
func TestFaults_EngineHiccup(t *testing.T) {
	t.Parallel()
	p := newProject(t, soonDone)
	var failed atomic.Bool
	p.env = append(p.env, "DOCKER_HOST="+dockertest.Front(t, func(engine *httputil.ReverseProxy) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !makesNetwork(r) || failed.Swap(true) {
				engine.ServeHTTP(w, r)
				return
			}
			http.Error(w, `{"message":"a hiccup"}`, http.StatusInternalServerError)
		})
	}))
	c := p.run(exitOK)
	run := p.runOf("x")
	if run.Attempts != 2 || len(run.Earlier) != 1 || run.Earlier[0].Reason != evidence.ReasonSandbox || !strings.Contains(run.Earlier[0].Message, "a hiccup") {
		t.Errorf("attempt %d, before it %+v\n%s", run.Attempts, run.Earlier, c.stdout.String())
	}
}

// makesNetwork reports whether a request creates the network of a trial of task x.
func makesNetwork(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, "/networks/create") && strings.Contains(nameOf(r), "-x-")
}

// TestFaults_EngineIsLate checks that objects which the engine creates after the request was
// abandoned are removed at the end.
func TestFaults_EngineIsLate(t *testing.T) {
	t.Parallel()
	p := newProject(t, soonDone)
	var asked atomic.Bool
	given, made := make(chan func(), 1), make(chan struct{})
	p.env = append(p.env, "DOCKER_HOST="+dockertest.Front(t, func(engine *httputil.ReverseProxy) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case makesNetwork(r) && !asked.Swap(true):
				again := r.Clone(context.Background())
				again.Body = io.NopCloser(bytes.NewReader(keepBody(r)))
				given <- func() {
					defer close(made)
					engine.ServeHTTP(httptest.NewRecorder(), again)
				}
				panic(http.ErrAbortHandler)
			case r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/networks/"):
				select { // the second attempt is over
				case late := <-given:
					late()
				default:
				}
			}
			engine.ServeHTTP(w, r)
		})
	}))
	p.run(exitOK)
	if run := p.runOf("x"); run.Attempts != 2 || len(run.Earlier) != 1 || run.Earlier[0].Reason != evidence.ReasonSandbox {
		t.Errorf("attempt %d, before it %+v", run.Attempts, run.Earlier)
	}
	<-made
	if left := dockertest.Objects(t, dockertest.Engine(t), p.runID()); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// What a server does to itself is its own: the call is a transport_error, the graders
// decide, and the report says what happened.
func TestFaults_ServersEnds(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, executor: script, isolation: {server_image: "debian:bookworm-slim"}}
tasks: [tasks/*.yaml]
-- tasks/1.yaml --
id: exits
inputs: {prompt: x}
mcp_servers: {it: {command: /srv/hostile, args: [close], files: {/srv/hostile: hostile}}}
script: [{call: {server: it, tool: poke, expect: transport_error}}, {say: over}]
-- tasks/2.yaml --
id: killed
inputs: {prompt: x}
mcp_servers: {it: {command: /srv/hostile, args: [kill], files: {/srv/hostile: hostile}}}
script: [{call: {server: it, tool: poke, expect: transport_error}}, {say: over}]
`)
	p.compile("hostile", "./testdata/hostile")
	c := p.run(exitOK)
	for task, want := range map[string]string{
		"exits":  "its process exited with code 3 during call 1",
		"killed": "its process was ended by SIGKILL during call 1",
	} {
		servers := p.runOf(task).Servers
		if len(servers) != 1 || servers[0].Name != "it" || servers[0].Calls != 1 || servers[0].Lost != 1 || len(servers[0].Ends) != 1 || servers[0].Ends[0] != want {
			t.Errorf("%s: %+v", task, servers)
		}
		if line := task + `/1 server "it": ` + want + "\n"; !strings.Contains(c.stdout.String(), line) {
			t.Errorf("stdout lacks %q:\n%s", line, c.stdout.String())
		}
	}
}
